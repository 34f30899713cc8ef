"""Centre of mass of a map, and its shift between two maps."""

import torch
from torch import Tensor

from holdfast.metrics.maps import spatial


def center_shift(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance in pixels between the centres of mass of two maps [B, H, W].

    >>> center_shift(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]), torch.tensor([[[0.0, 0.0], [0.0, 2.0]]]))
    tensor([1.4142], dtype=torch.float64)
    """
    a, b = spatial(a, b)
    return (center_of_mass(a.double()) - center_of_mass(b.double())).square().sum(1).sqrt()


def center_of_mass(a: Tensor) -> Tensor:
    """(row, column) of the centre of mass of maps [B, H, W], as [B, 2]; differentiable; NaN for a map without mass."""
    rows = torch.arange(a.shape[1], dtype=a.dtype, device=a.device)
    columns = torch.arange(a.shape[2], dtype=a.dtype, device=a.device)
    moments = torch.stack([a.sum(2) @ rows, a.sum(1) @ columns], dim=1)
    return moments / a.sum((1, 2))[:, None]
