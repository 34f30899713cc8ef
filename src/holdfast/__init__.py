"""holdfast audits how easily a network's explanations can be moved, and trains networks whose explanations hold."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import attacks, attribution, data, losses, metrics, models, recipes, training
    from holdfast.attacks import LAST, PGD
    from holdfast.attribution import (
        ClassLogit,
        ClassProbability,
        Gradient,
        InputXGradient,
        IntegratedGradients,
        SmoothGrad,
        margin,
        most_confusing,
        saliency_map,
        true_logit,
        true_loss,
        true_probability,
    )
    from holdfast.auditing import audit
    from holdfast.balls import L2, Linf
    from holdfast.errors import DataError, HoldfastError, InputError
    from holdfast.evaluation import Plan, evaluate
    from holdfast.experiment import load
    from holdfast.models import Classifier, double_backward_audit, is_scale_invariant, smooth
    from holdfast.objective import Objective, Term
    from holdfast.rng import make_keys
    from holdfast.training import fit
    from holdfast.types import Pair

__version__ = "0.1.0.dev0"

# Where each public name lives. Names are loaded on first use, so that `holdfast --help` and `import holdfast` cost
# next to nothing and PyTorch is loaded only by those who need it.
_MODULES = ("attacks", "attribution", "data", "losses", "metrics", "models", "recipes", "training")
_HOMES = {
    "holdfast.attacks": ("LAST", "PGD"),
    "holdfast.attribution": (
        "ClassLogit",
        "ClassProbability",
        "Gradient",
        "InputXGradient",
        "IntegratedGradients",
        "SmoothGrad",
        "margin",
        "most_confusing",
        "saliency_map",
        "true_logit",
        "true_loss",
        "true_probability",
    ),
    "holdfast.auditing": ("audit",),
    "holdfast.experiment": ("load",),
    "holdfast.balls": ("L2", "Linf"),
    "holdfast.evaluation": ("Plan", "evaluate"),
    "holdfast.training": ("fit",),
    "holdfast.errors": ("DataError", "HoldfastError", "InputError"),
    "holdfast.models": ("Classifier", "double_backward_audit", "is_scale_invariant", "smooth"),
    "holdfast.objective": ("Objective", "Term"),
    "holdfast.rng": ("make_keys",),
    "holdfast.types": ("Pair",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "L2",
    "LAST",
    "PGD",
    "ClassLogit",
    "ClassProbability",
    "Classifier",
    "DataError",
    "Gradient",
    "HoldfastError",
    "InputError",
    "InputXGradient",
    "IntegratedGradients",
    "Linf",
    "Objective",
    "Pair",
    "Plan",
    "SmoothGrad",
    "Term",
    "attacks",
    "attribution",
    "audit",
    "data",
    "double_backward_audit",
    "evaluate",
    "fit",
    "is_scale_invariant",
    "load",
    "losses",
    "make_keys",
    "margin",
    "metrics",
    "models",
    "most_confusing",
    "recipes",
    "saliency_map",
    "smooth",
    "training",
    "true_logit",
    "true_loss",
    "true_probability",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"holdfast.{name}")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
