"""Per-example losses. Attacks ascend them in the input; training descends them in the weights.

Each file is named after its loss or group of losses. Equation numbers are those of *Enhanced Regularizers for
Attributional Robustness* ("the paper"). Imports `attribution`, `metrics`, `models` and `engine`.
"""

from holdfast.losses.art import AlignmentTriplet
from holdfast.losses.base import Clean, Loss, Scaled, Sum, select
from holdfast.losses.cacr import CACR, kl_uniform
from holdfast.losses.context import LossContext
from holdfast.losses.curvature import Curvature
from holdfast.losses.first_layer import DeadZone, FilterSpread
from holdfast.losses.ig_norm import IGNorm
from holdfast.losses.igr import AttributionCosine
from holdfast.losses.lga import GradientAlignment
from holdfast.losses.map_distance import (
    CenterShift,
    FlattenedCosine,
    KendallDrop,
    MapCosine,
    NoDirection,
    SoftTopK,
    TargetMass,
    TopKMass,
)
from holdfast.losses.pearson import AttributionPearson
from holdfast.losses.prediction import DLR, CrossEntropy, Margin, PredictionKL
from holdfast.losses.r2et import FiniteCurvature, TopKGap
from holdfast.losses.soft_ranks import LogTopK, SoftKendall
from holdfast.losses.wacr import WACR

__all__ = [
    "CACR",
    "DLR",
    "WACR",
    "AlignmentTriplet",
    "AttributionCosine",
    "AttributionPearson",
    "CenterShift",
    "Clean",
    "CrossEntropy",
    "Curvature",
    "DeadZone",
    "FilterSpread",
    "FiniteCurvature",
    "FlattenedCosine",
    "GradientAlignment",
    "IGNorm",
    "KendallDrop",
    "LogTopK",
    "Loss",
    "LossContext",
    "MapCosine",
    "Margin",
    "NoDirection",
    "PredictionKL",
    "Scaled",
    "SoftKendall",
    "SoftTopK",
    "Sum",
    "TargetMass",
    "TopKGap",
    "TopKMass",
    "kl_uniform",
    "select",
]
