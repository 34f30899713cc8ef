"""Measure a trained network: accuracy, accuracy under attack, how far its maps can be moved, and how good they are.

Imports `recipes`, `data`, `runs` and every room before them.
"""

from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.protocol import Evaluation, EvaluationProtocol

__all__ = ["Evaluation", "EvaluationProtocol", "evaluate"]
