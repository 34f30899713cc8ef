"""Helpers of the attribution losses: norms, reduction of channels to pixels, the paper's integrated gradients."""

from collections.abc import Callable, Mapping

from torch import Tensor

from holdfast.attribution.integrated import IntegratedGradients
from holdfast.engine.ops import flatten
from holdfast.errors import expected


def l1(values: Tensor) -> Tensor:
    """sum_i |v_i| per example, [B, P] -> [B]."""
    return values.abs().sum(1)


def l2(values: Tensor) -> Tensor:
    """Euclidean norm per example, [B, P] -> [B], with a finite derivative at zero."""
    return (values.square().sum(1) + 1e-24).sqrt()


SIZES: Mapping[str, Callable[[Tensor], Tensor]] = {"l1": l1, "l2": l2}


def per_pixel(attribution: Tensor) -> Tensor:
    """Signed sum over channels: one number per pixel, [B, C, H, W] -> [B, H W]."""
    return flatten(attribution.sum(1))


GRANULARITIES: Mapping[str, Callable[[Tensor], Tensor]] = {"pixel": per_pixel, "entry": flatten}


def pick(table: Mapping[str, Callable[[Tensor], Tensor]], name: str, what: str) -> Callable[[Tensor], Tensor]:
    """An entry of `table`; raises an error that lists the known names."""
    if name not in table:
        raise expected(f"{what} to be one of {', '.join(table)}", got=repr(name))
    return table[name]


def path_ig(steps: int) -> IntegratedGradients:
    """The paper's integrated gradients with m = `steps` points; the score is set per map."""
    return IntegratedGradients(steps=steps)
