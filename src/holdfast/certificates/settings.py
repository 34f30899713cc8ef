"""Settings of a certification."""

from dataclasses import dataclass, field

from holdfast.attribution.gradient import Gradient
from holdfast.certificates.binomial import BOUNDS, Bound
from holdfast.certificates.pixels import pixel_radius
from holdfast.errors import expected
from holdfast.types import Attribution


@dataclass(frozen=True, kw_only=True)
class CertifySettings:
    """What is certified, and how precisely.

    `attribution` gives the map that is smoothed, by default the gradient. The noise is Gaussian with the standard
    deviation `sigma` (pixels are in [0, 1]), and each image has `draws` noisy copies. `k` top pixels are compared, by
    default a tenth of the pixels. `alpha` is the probability, per image and certificate, that a certificate is wrong.

    Pixels: the first `first` copies choose the label of each pixel, and `tau` sets the radius sigma Phi^-1(tau).
    Overlap: `bound` is 'clopper-pearson' or the paper's 'hoeffding'. Attack: `radii` in multiples of sigma, in addition
    to the radius of the pixels; `attack_steps` PGD steps with `attack_draws` noisy copies each; 0 steps leave the
    attack out. Soft stability: `error` and `doubt`. Interval bounds: `eps`, the largest change per pixel.

    >>> [round(radius, 3) for radius in CertifySettings(sigma=0.25).attack_radii]
    [0.169, 0.25, 0.5]
    """

    attribution: Attribution = field(default_factory=Gradient)
    sigma: float = 0.15
    draws: int = 1000
    k: int | None = None
    alpha: float = 0.001
    first: int = 10
    tau: float = 0.75
    bound: Bound = "clopper-pearson"
    radii: tuple[float, ...] = (1.0, 2.0)
    attack_steps: int = 20
    attack_draws: int = 16
    error: float = 0.1
    doubt: float = 0.1
    eps: float = 1 / 255
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.first < self.draws:
            raise expected("1 <= first < draws", got=f"first = {self.first}, draws = {self.draws}")
        if self.bound not in BOUNDS:
            raise expected(f"bound to be one of {', '.join(BOUNDS)}", got=repr(self.bound))
        if not all(radius > 0 for radius in self.radii):
            raise expected("radii > 0, in multiples of sigma", got=self.radii)

    @property
    def attack_radii(self) -> tuple[float, ...]:
        """The Euclidean radii at which the smoothed map is attacked, ascending."""
        wanted = {pixel_radius(self.sigma, self.tau), *(self.sigma * ratio for ratio in self.radii)}
        return tuple(sorted(wanted))

    def top_k(self, pixels: int) -> int:
        """The number of top pixels of maps with so many pixels."""
        return max(1, pixels // 10) if self.k is None else self.k
