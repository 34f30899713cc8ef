"""The budget of an attack: the ball of allowed perturbations, the k of top-k, and the map that is attacked.

Runs that differ in it do not compare. It is in `summary.json`. For runs evaluated before it was recorded there, it is
read from `measured.json`, which holds the settings of every attack as text.
"""

import re
from dataclasses import dataclass

_BALL = re.compile(r"\bball=(\w+)\(eps=(\d+(?:\.\d*)?(?:e-?\d+)?)\)")
_EVAL_K = re.compile(r"\beval_k=(\d+)\)")
_MAP = re.compile(r"\battribution=(\w+)\(")
_PASSES = re.compile(r"\bpasses=(\d+)\b")
_STEPS = re.compile(r"\bsteps=(\d+), step_size=")

_MAP_CLASSES = {
    "IntegratedGradients": "ig",
    "Gradient": "gradient",
    "InputXGradient": "input-x-gradient",
    "SmoothGrad": "smoothgrad",
    "GradCAM": "gradcam",
    "GradCAMPlusPlus": "gradcam++",
}
"""Class in the settings of an attack -> name of the map."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Norm and radius of the ball, k, and the name of the map; None where it is not known."""

    norm: str | None = None
    eps: float | None = None
    k: int | None = None
    map: str | None = None

    @property
    def text(self) -> str:
        """The budget in a few words, without the map.

        >>> Budget(norm="Linf", eps=8 / 255, k=100).text, Budget(norm="L2", eps=0.5).text
        ('ε = 8/255, k = 100', 'L2 norm, ε = 0.5')
        """
        norm = [] if self.norm in (None, "Linf") else [f"{self.norm} norm"]
        parts = [*norm, *([f"ε = {eps_text(self.eps)}"] if self.eps is not None else [])]
        parts += [f"k = {self.k}"] if self.k is not None else []
        return ", ".join(parts) or "budget not recorded"

    @property
    def text_with_map(self) -> str:
        """The same with the map.

        >>> Budget(norm="Linf", eps=0.1, k=6, map="gradcam").text_with_map
        'ε = 0.1, k = 6, map gradcam'
        """
        return self.text if self.map is None else f"{self.text}, map {self.map}"


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

    >>> budget_from_text("Search(pgd=PGD(ball=Linf(eps=0.3), steps=5), attribution=Gradient(chunk=None), eval_k=100)")
    Budget(norm='Linf', eps=0.3, k=100, map='gradient')
    """
    ball, k = _BALL.search(settings), _EVAL_K.search(settings)
    if ball is None:
        return None
    return Budget(norm=ball[1], eps=float(ball[2]), k=int(k[1]) if k else None, map=map_from_text(settings))


def map_from_text(settings: str) -> str | None:
    """The map in the settings of an attack; None if there is none."""
    return map_name(found[1]) if (found := _MAP.search(settings)) else None


def map_name(text: str) -> str:
    """The name of a map that is given by its name or its class.

    >>> map_name("GradCAM"), map_name("gradcam"), map_name("MyMap")
    ('gradcam', 'gradcam', 'MyMap')
    """
    return _MAP_CLASSES.get(text, text)


def depth_from_text(settings: str) -> str:
    """The passes, or else the steps, in the settings of an attack; empty if there are none.

    >>> depth_from_text("Strongest(passes=2000)"), depth_from_text("PGD(steps=50, step_size=0.1)"), depth_from_text("")
    ('2,000 passes', '50 steps', '')
    """
    for pattern, unit in ((_PASSES, "passes"), (_STEPS, "steps")):
        if found := pattern.search(settings):
            return f"{int(found[1]):,} {unit}"
    return ""
