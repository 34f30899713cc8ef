"""The examples that are still under attack."""

from dataclasses import dataclass

from torch import Tensor

from holdfast.losses.base import Clean, select
from holdfast.types import MapCache


@dataclass(frozen=True)
class ActiveExamples:
    """Examples still under attack: their positions in the caller's batch, and the data of their clean images."""

    rows: Tensor
    x: Tensor
    y: Tensor
    keys: Tensor
    label: Tensor | None
    """The prediction for the clean image, if the attack needs it."""
    clean: Clean
    judge_clean: Clean | None
    maps: MapCache[Tensor]
    """Clean maps that the caller has already computed."""

    def keep(self, alive: Tensor) -> "ActiveExamples":
        """Only the examples for which `alive` [B] is true."""
        if bool(alive.all()):
            return self
        return ActiveExamples(
            rows=self.rows[alive],
            x=self.x[alive],
            y=self.y[alive],
            keys=self.keys[alive],
            label=None if self.label is None else self.label[alive],
            clean=select(self.clean, alive),
            judge_clean=None if self.judge_clean is None else select(self.judge_clean, alive),
            maps=self.maps.rows(alive),
        )
