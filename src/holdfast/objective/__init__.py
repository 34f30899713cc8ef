"""What training minimises: model, losses and attack as one `nn.Module`. May import everything up to `attacks`."""

from holdfast.objective.objective import Objective, ObjectiveOutput, Term

__all__ = ["Objective", "ObjectiveOutput", "Term"]
