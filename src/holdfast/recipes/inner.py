"""What the training methods share: the cross-entropies at x and x', the search for x', penalties on the first layer."""

from holdfast.attacks.balls import Linf
from holdfast.attacks.pgd import LAST, PGD
from holdfast.losses import CrossEntropy, DeadZone, FilterSpread, Loss, NoDirection
from holdfast.objective.objective import Term

AT_X = CrossEntropy(at="clean")
AT_X_ADV = CrossEntropy(at="perturbed")


def search(loss: Loss, eps: float, attack_steps: int, step_size: float) -> PGD:
    """The inner maximisation of training: PGD with a random start, a fixed number of steps, and the last iterate."""
    return PGD(loss, ball=Linf(eps), steps=attack_steps, step_size=step_size, random_start=True, best_by=LAST)


def somewhere(eps: float) -> PGD:
    """No search: a keyed point, uniform in the L-infinity ball."""
    return search(NoDirection(), eps, attack_steps=0, step_size=0.0)


def first_layer(eps: float, dead_zone: float, filter_spread: float) -> list[Term]:
    """The penalties on the first layer with their weights; a weight of zero leaves the penalty out."""
    penalties = ((dead_zone, DeadZone(level=eps)), (filter_spread, FilterSpread()))
    return [Term(size * penalty) for size, penalty in penalties if size]
