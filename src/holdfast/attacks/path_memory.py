"""The maps of the last steps of a search, so that a step that takes one point of the path knows the whole map.

The ranks of a map are not the mean of the ranks at its points. A loss of one sampled point therefore pulls towards the
wrong pixels. The points of consecutive steps cover the path evenly, so the mean of the last few attributions is close
to the map of the path. It costs no pass.
"""

from collections import deque

import torch
from torch import Tensor


class PathMemory:
    """Keeps the attributions of the last `size` steps, each shaped like the images of a search."""

    def __init__(self, size: int) -> None:
        self.recent: deque[Tensor] = deque(maxlen=max(0, size - 1))

    def complete(self, found: Tensor, rows: slice) -> Tensor:
        """The mean of `found` and of what is remembered for `rows`, with the derivative of `found` alone.

        >>> memory = PathMemory(2)
        >>> memory.add(torch.tensor([1.0]))
        >>> memory.complete(torch.tensor([3.0]), slice(None))
        tensor([2.])
        """
        if not self.recent:
            return found
        mean = torch.stack([found.detach(), *(past[rows] for past in self.recent)]).mean(0)
        return found + (mean - found).detach()

    def add(self, found: Tensor) -> None:
        """Remember the attributions of one step; those of the oldest step are forgotten."""
        self.recent.append(found.detach())
