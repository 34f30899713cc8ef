# The one table of public names: type checkers read it as it is, and __init__.py reads where each name lives.
from holdfast import attacks as attacks
from holdfast import attribution as attribution
from holdfast import attribution as maps  # noqa: F401 - the short name
from holdfast import certificates as certificates
from holdfast import data as data
from holdfast import losses as losses
from holdfast import metrics as metrics
from holdfast import models as models
from holdfast import recipes as recipes
from holdfast import training as training
from holdfast import zoo as zoo
from holdfast.attacks.balls import L2 as L2
from holdfast.attacks.balls import Linf as Linf
from holdfast.attacks.pgd import LAST as LAST
from holdfast.attacks.pgd import PGD as PGD
from holdfast.attribution.gradcam import GradCAM as GradCAM
from holdfast.attribution.gradcam_plus_plus import GradCAMPlusPlus as GradCAMPlusPlus
from holdfast.attribution.gradient import Gradient as Gradient
from holdfast.attribution.input_x_gradient import InputXGradient as InputXGradient
from holdfast.attribution.integrated import IntegratedGradients as IntegratedGradients
from holdfast.attribution.saliency import saliency_map as saliency_map
from holdfast.attribution.scores import ClassLogit as ClassLogit
from holdfast.attribution.scores import ClassProbability as ClassProbability
from holdfast.attribution.scores import centred_logit as centred_logit
from holdfast.attribution.scores import margin as margin
from holdfast.attribution.scores import most_confusing as most_confusing
from holdfast.attribution.scores import true_logit as true_logit
from holdfast.attribution.scores import true_loss as true_loss
from holdfast.attribution.scores import true_probability as true_probability
from holdfast.attribution.smoothgrad import SmoothGrad as SmoothGrad
from holdfast.certificates.certify import certify as certify
from holdfast.certificates.result import Certificates as Certificates
from holdfast.certificates.settings import CertifySettings as CertifySettings
from holdfast.errors import DataError as DataError
from holdfast.errors import HoldfastError as HoldfastError
from holdfast.errors import InputError as InputError
from holdfast.evaluation.audit import AuditSettings as AuditSettings
from holdfast.evaluation.audit import audit as audit
from holdfast.evaluation.evaluate import evaluate as evaluate
from holdfast.evaluation.protocol import EvaluationProtocol as EvaluationProtocol
from holdfast.experiment.networks import load as load
from holdfast.models.classifier import Classifier as Classifier
from holdfast.models.double_backward import double_backward_audit as double_backward_audit
from holdfast.models.exact_value import exact_value_surrogate as exact_value_surrogate
from holdfast.models.scale_invariance import is_scale_invariant as is_scale_invariant
from holdfast.models.surrogate import softplus_surrogate as smooth  # noqa: F401 - the name of version 0.1
from holdfast.models.surrogate import softplus_surrogate as softplus_surrogate
from holdfast.objective.objective import Objective as Objective
from holdfast.objective.objective import Term as Term
from holdfast.report.plot import plot as plot
from holdfast.rng import make_keys as make_keys
from holdfast.training.loop import fit as fit
from holdfast.training.settings import FitSettings as FitSettings
from holdfast.types import Pair as Pair

__version__: str
