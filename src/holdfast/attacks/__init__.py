"""Attacks on predictions and on explanations: one loop, its book-keeping, the ensemble, and checks on itself."""

from holdfast.attacks.diagnostics import Diagnosis, diagnose, diagnosed, random_control
from holdfast.attacks.ensemble import Ensemble, EnsembleResult
from holdfast.attacks.explanation import ExplanationAttack, ExplanationResult, Outcome, Scores, compare
from holdfast.attacks.manipulation import Manipulation
from holdfast.attacks.pgd import LAST, PGD, AttackResult

__all__ = [
    "LAST",
    "PGD",
    "AttackResult",
    "Diagnosis",
    "Ensemble",
    "EnsembleResult",
    "ExplanationAttack",
    "ExplanationResult",
    "Manipulation",
    "Outcome",
    "Scores",
    "compare",
    "diagnose",
    "diagnosed",
    "random_control",
]
