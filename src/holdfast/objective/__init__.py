"""The training objective: model, losses and attack as one `nn.Module`. Imports `attacks`, `losses` and `engine`."""

from holdfast.objective.objective import Objective, ObjectiveOutput, Term

__all__ = ["Objective", "ObjectiveOutput", "Term"]
