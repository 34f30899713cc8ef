"""Attacks on predictions and explanations: the PGD loop, Auto-PGD, the ensemble, and diagnostics of attacks.

Imports `losses`, `attribution`, `metrics`, `models`, `runs` and `engine`.
"""

from holdfast.attacks.apgd import APGD
from holdfast.attacks.balls import L2, Ball, Linf
from holdfast.attacks.base import (
    CleanSide,
    ExplanationAttack,
    ExplanationResult,
    Outcome,
    Scores,
    clean_side,
    compare,
)
from holdfast.attacks.diagnostics import Diagnosis, diagnose, random_control
from holdfast.attacks.ensemble import Ensemble, EnsembleResult
from holdfast.attacks.explanation import PGDExplanationAttack
from holdfast.attacks.manipulation import Manipulation
from holdfast.attacks.members import Ascent, GradientFree
from holdfast.attacks.pgd import LAST, PGD, AttackResult
from holdfast.attacks.proposal import ProposalAttack
from holdfast.attacks.strongest import Schedule, StrongestAttack, StrongestResult
from holdfast.attacks.universal import SharedPerturbation, fit_universal

__all__ = [
    "APGD",
    "L2",
    "LAST",
    "PGD",
    "Ascent",
    "AttackResult",
    "Ball",
    "CleanSide",
    "Diagnosis",
    "Ensemble",
    "EnsembleResult",
    "ExplanationAttack",
    "ExplanationResult",
    "GradientFree",
    "Linf",
    "Manipulation",
    "Outcome",
    "PGDExplanationAttack",
    "ProposalAttack",
    "Schedule",
    "Scores",
    "SharedPerturbation",
    "StrongestAttack",
    "StrongestResult",
    "clean_side",
    "compare",
    "diagnose",
    "fit_universal",
    "random_control",
]
