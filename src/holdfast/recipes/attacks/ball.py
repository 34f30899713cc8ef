"""The threat model of an attack: `eps` for the L-infinity ball, or a ball."""

from holdfast.attacks.balls import Ball, Linf
from holdfast.errors import expected


def given_ball(eps: float | None, ball: Ball | None) -> Ball:
    """The ball of radius `eps`, or `ball`; exactly one of the two must be given."""
    if (eps is None) == (ball is None):
        raise expected("either eps (for the L-infinity ball) or a ball", got=f"eps={eps}, ball={ball}")
    return Linf(eps) if eps is not None else ball  # type: ignore[return-value]  # one of the two, checked above
