"""Evaluation of a trained network: accuracy, accuracy under PGD, robustness of its maps and quality of its maps.

This package imports `recipes`, `data`, `runs` and the packages before them.
"""

from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.protocol import Evaluation, EvaluationProtocol

__all__ = ["Evaluation", "EvaluationProtocol", "evaluate"]
