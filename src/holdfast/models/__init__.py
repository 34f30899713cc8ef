"""Networks by name, the `Classifier` wrapper, and what is asked of any network: smoothing, audits, invariance."""

from holdfast.models.classifier import Classifier
from holdfast.models.double_backward import double_backward_audit
from holdfast.models.modes import evaluating
from holdfast.models.registry import build, names
from holdfast.models.scale import is_scale_invariant
from holdfast.models.surrogate import smooth

__all__ = ["Classifier", "build", "double_backward_audit", "evaluating", "is_scale_invariant", "names", "smooth"]
