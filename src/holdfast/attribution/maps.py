"""From an attribution to the map that is shown, attacked and compared."""

import torch
from torch import Tensor

from holdfast.errors import expected


def saliency_map(attribution: Tensor) -> Tensor:
    """|attribution| summed over channels, normalised to the sum H W: [B, C, H, W] -> [B, H, W].

    An attribution that is zero everywhere has no direction; its map is zero everywhere, and the metrics call it NaN.

    >>> saliency_map(torch.tensor([[[[1.0, -3.0]]]]))
    tensor([[[0.5000, 1.5000]]])
    """
    if attribution.dim() != 4:
        raise expected("an attribution [B, C, H, W]", got=f"shape {list(attribution.shape)}")
    amount = attribution.abs().sum(1)
    total = amount.sum((1, 2), keepdim=True)
    return amount / torch.where(total > 0, total, 1) * (amount.shape[1] * amount.shape[2])
