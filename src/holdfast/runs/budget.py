"""The budget of an attack: the ball of allowed perturbations and the k of top-k. Runs that differ in it do not compare.

It is in `summary.json`. For runs evaluated before it was recorded there, it is read from `measured.json`, which holds
the settings of every attack as text.
"""

import re
from dataclasses import dataclass

_BALL = re.compile(r"\bball=(\w+)\(eps=(\d+(?:\.\d*)?(?:e-?\d+)?)\)")
_EVAL_K = re.compile(r"\beval_k=(\d+)\)")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Norm and radius of the ball, and k; None where it is not known."""

    norm: str | None = None
    eps: float | None = None
    k: int | None = None

    @property
    def text(self) -> str:
        """The budget in a few words.

        >>> Budget(norm="Linf", eps=8 / 255, k=100).text, Budget(norm="L2", eps=0.5).text
        ('ε = 8/255, k = 100', 'L2 norm, ε = 0.5')
        """
        norm = [] if self.norm in (None, "Linf") else [f"{self.norm} norm"]
        parts = [*norm, *([f"ε = {eps_text(self.eps)}"] if self.eps is not None else [])]
        parts += [f"k = {self.k}"] if self.k is not None else []
        return ", ".join(parts) or "budget not recorded"


def eps_text(eps: float) -> str:
    """The largest change per pixel as text: a short decimal, or else in steps of 1/255.

    >>> eps_text(8 / 255), eps_text(0.2), eps_text(0.0314)
    ('8/255', '0.2', '0.0314')
    """
    short, steps = f"{eps:.4g}", eps * 255
    whole = abs(steps - round(steps)) < 1e-6 and 0 < steps < 255
    return f"{round(steps)}/255" if whole and float(short) != eps else short


def budget_from_text(settings: str) -> Budget | None:
    """The budget in the settings of an attack as `measured.json` holds them; None if there is none.

    >>> budget_from_text("Search(pgd=PGD(ball=Linf(eps=0.3), steps=5), eval_k=100)")
    Budget(norm='Linf', eps=0.3, k=100)
    """
    ball, k = _BALL.search(settings), _EVAL_K.search(settings)
    if ball is None:
        return None
    return Budget(norm=ball[1], eps=float(ball[2]), k=int(k[1]) if k else None)
