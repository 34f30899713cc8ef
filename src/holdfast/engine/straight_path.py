"""Points on a straight line through image space, for every example of a batch."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StraightPath:
    """The points start + t_j direction for each example: start and direction [B, ...], t [points]."""

    start: Tensor
    direction: Tensor
    t: Tensor

    def points(self) -> Tensor:
        """All points, [points, B, ...]."""
        return torch.addcmul(self.start, self.t.reshape(-1, *[1] * self.start.dim()), self.direction)

    def shifted(self, by: Tensor) -> "StraightPath":
        """The path with its start moved by `by`."""
        return StraightPath(self.start + by, self.direction, self.t)
