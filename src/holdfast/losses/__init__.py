"""Per-example losses, shared by attacks (which ascend them in the input) and training (which descends them)."""

from holdfast.losses.base import Clean, Loss, Scaled, Sum, select
from holdfast.losses.maps import (
    CenterShift,
    KendallDrop,
    MapCosine,
    NoDirection,
    SoftTopK,
    TargetMass,
    TopKMass,
    map_of,
)
from holdfast.losses.prediction import CrossEntropy, Margin

__all__ = [
    "CenterShift",
    "Clean",
    "CrossEntropy",
    "KendallDrop",
    "Loss",
    "MapCosine",
    "Margin",
    "NoDirection",
    "Scaled",
    "SoftTopK",
    "Sum",
    "TargetMass",
    "TopKMass",
    "map_of",
    "select",
]
