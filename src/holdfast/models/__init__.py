"""Networks by name, the `Classifier` wrapper, the softplus surrogate, and checks for any network.

The checks are the double-backward audit and the scale-invariance test. `networks/` has one file per network of the
papers. This package imports `engine`.
"""

from holdfast.engine.modes import evaluating
from holdfast.models.classifier import Classifier
from holdfast.models.double_backward import double_backward_audit
from holdfast.models.registry import build, names
from holdfast.models.scale_invariance import is_scale_invariant
from holdfast.models.softplus import SoftplusNetwork
from holdfast.models.surrogate import softplus_surrogate

__all__ = [
    "Classifier",
    "SoftplusNetwork",
    "build",
    "double_backward_audit",
    "evaluating",
    "is_scale_invariant",
    "names",
    "softplus_surrogate",
]
