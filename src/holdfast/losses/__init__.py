"""Per-example losses, shared by attacks (which ascend them in the input) and training (which descends them)."""

from holdfast.losses.alignment import AlignmentTriplet
from holdfast.losses.base import Clean, Loss, Scaled, Sum, select
from holdfast.losses.change import WACR, AttributionCosine, IGNorm
from holdfast.losses.contrast import CACR, kl_uniform
from holdfast.losses.maps import (
    CenterShift,
    FlattenedCosine,
    KendallDrop,
    MapCosine,
    NoDirection,
    SoftTopK,
    TargetMass,
    TopKMass,
    map_of,
)
from holdfast.losses.prediction import CrossEntropy, Margin, PredictionKL
from holdfast.losses.quiet import NarrowFilters, QuietBelow
from holdfast.losses.scene import Scene

__all__ = [
    "CACR",
    "WACR",
    "AlignmentTriplet",
    "AttributionCosine",
    "CenterShift",
    "Clean",
    "CrossEntropy",
    "FlattenedCosine",
    "IGNorm",
    "KendallDrop",
    "Loss",
    "MapCosine",
    "Margin",
    "NarrowFilters",
    "NoDirection",
    "PredictionKL",
    "QuietBelow",
    "Scaled",
    "Scene",
    "SoftTopK",
    "Sum",
    "TargetMass",
    "TopKMass",
    "kl_uniform",
    "map_of",
    "select",
]
