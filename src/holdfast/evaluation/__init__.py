"""Measure a trained network: accuracy, accuracy under attack, and how far its maps can be moved."""

from holdfast.evaluation.plan import Evaluation, Plan, evaluate

__all__ = ["Evaluation", "Plan", "evaluate"]
