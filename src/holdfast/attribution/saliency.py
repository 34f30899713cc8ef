"""From an attribution to the saliency map that is shown, attacked and compared."""

from typing import Any

import torch
from torch import Tensor

from holdfast.errors import expected
from holdfast.models.surrogate import surrogate_or_network
from holdfast.types import Attribution, Model


class _Size(torch.autograd.Function):
    """|a| whose derivative at 0 is 1, not 0, so that a search sees that it can add attribution to black pixels."""

    @staticmethod
    def forward(a: Tensor) -> Tensor:
        return a.abs()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        return torch.where(a < 0, -dy, dy)


def saliency_map(attribution: Tensor, *, straight_through: bool = False) -> Tensor:
    """|attribution| summed over channels, normalised to sum H W: [B, C, H, W] -> [B, H, W].

    With `straight_through`, the derivative of |a| at 0 is taken as 1, for searches. The map of an attribution that is
    zero everywhere is zero everywhere. The metrics are NaN for such a map.

    >>> saliency_map(torch.tensor([[[[1.0, -3.0]]]]))
    tensor([[[0.5000, 1.5000]]])
    """
    if attribution.dim() != 4:
        raise expected("an attribution [B, C, H, W]", got=f"shape {list(attribution.shape)}")
    size: Tensor = attribution.abs()
    if straight_through:
        size = _Size.apply(attribution)  # type: ignore[no-untyped-call]
    amount = size.sum(1)
    total = amount.sum((1, 2), keepdim=True)
    return amount / torch.where(total > 0, total, 1) * (amount.shape[1] * amount.shape[2])


def map_of(
    model: Model, x: Tensor, y: Tensor, attribution: Attribution, *, beta: float | None = None, graph: bool = False
) -> Tensor:
    """The saliency map [B, H, W] of the network, or of its softplus surrogate if `beta` is given."""
    with surrogate_or_network(beta):
        found = attribution(model, x, y, create_graph=graph)
    return saliency_map(found if graph else found.detach())
