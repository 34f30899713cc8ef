"""Training: one loop with checkpoints, resume, signal handling, divergence checks and distributed processes.

Imports `data`, `runs`, `engine` and `storage`.
"""

from holdfast.storage.lock import RunDirectoryBusyError
from holdfast.training.checkpoint_store import RecoveryWarning, load_weights
from holdfast.training.distributed import LostProcessError, Processes, current, joined, pick_device
from holdfast.training.guards import DivergedError
from holdfast.training.logbook import read_log
from holdfast.training.loop import fit
from holdfast.training.optimizers import OPTIMIZERS, SGD, Adam, decay_kernels
from holdfast.training.protocols import Batches, Schedule, StepOutput, TrainableObjective
from holdfast.training.schedules import SCHEDULES, Constant, Cosine, OneCycle, Piecewise
from holdfast.training.settings import Best, FitResult, FitSettings
from holdfast.training.signals import Interrupted

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "SGD",
    "Adam",
    "Batches",
    "Best",
    "Constant",
    "Cosine",
    "DivergedError",
    "FitResult",
    "FitSettings",
    "Interrupted",
    "LostProcessError",
    "OneCycle",
    "Piecewise",
    "Processes",
    "RecoveryWarning",
    "RunDirectoryBusyError",
    "Schedule",
    "StepOutput",
    "TrainableObjective",
    "current",
    "decay_kernels",
    "fit",
    "joined",
    "load_weights",
    "pick_device",
    "read_log",
]
