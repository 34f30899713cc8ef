"""The objective of hardening: a training method whose weight falls when the accuracy does.

    loss = (1 - strength) CE(x) + strength L(x),    L the loss of the method

For methods of the form CE(x) + penalties, such as TRADES and `erar_plus`, this multiplies the penalties by `strength`.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.objective import Objective
from holdfast.objective.objective import ObjectiveOutput

WEAKER = 0.5
"""Factor on the strength when the accuracy is too low; its inverse when there is room again."""

PATIENCE, TARGET, SETTLED = 2.5, 0.75, 0.7
"""Multiples of the limit that are tolerated in the warm-up, and from the share `SETTLED` of the other steps on. At its
largest, the learning rate alone costs some points, which come back when it falls."""


class Check(NamedTuple):
    """One look at the accuracy: the step, the accuracy, the strength from then on, and whether the state was kept."""

    step: int
    accuracy: float
    strength: float
    kept: bool


class GuardedObjective(nn.Module):
    """A method's objective with a guard of the accuracy. Its state is in buffers, so a checkpoint holds all of it.

    `accuracy` is that of the original network and `limit` the largest drop. `kept` is the last state of the network
    within the limit; at first the original one.
    """

    strength: Tensor
    history: Tensor

    def __init__(self, method: Objective, *, accuracy: float, limit: float, steps: int, every: int, warm_up: int):
        super().__init__()
        self.model = method.model
        self._method = (method,)  # in a tuple, so that the network is registered once
        self.accuracy, self.limit = accuracy, limit
        self.steps, self.every, self.warm_up = steps, every, warm_up
        self.register_buffer("strength", torch.ones((), dtype=torch.float64))
        self.register_buffer("history", torch.full((-(-steps // every), len(Check._fields)), torch.nan).double())
        for at, value in enumerate(self.model.state_dict().values()):
            self.register_buffer(f"kept_{at}", value.detach().clone())

    @property
    def budget(self) -> float:
        """The factor on the radius of the attacks, which the trainer sets."""
        return self._method[0].budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._method[0].budget = value

    @property
    def example_passes(self) -> int:
        """The example-passes so far."""
        return self._method[0].example_passes

    @example_passes.setter
    def example_passes(self, value: int) -> None:
        self._method[0].example_passes = value

    def forward(self, x: Tensor, y: Tensor, keys: Tensor) -> ObjectiveOutput:
        """The loss of the method, mixed with the cross-entropy of the clean images."""
        found, strength = self._method[0](x, y, keys), float(self.strength)
        if strength < 1:
            plain = F.cross_entropy(self.model(x), y)
            total = strength * found.total + (1 - strength) * plain
            return ObjectiveOutput(total, {**found.parts, "total": total.detach()})
        return ObjectiveOutput(found.total, found.parts)

    def look(self, accuracy: float) -> Check:
        """Record an accuracy: keep the state if it is within the limit, and set the strength of the next steps."""
        before = self.checks
        step = min((len(before) + 1) * self.every, self.steps)
        drop = self.accuracy - accuracy
        recovering = bool(before) and accuracy > before[-1].accuracy and self._done(step) < SETTLED
        if kept := drop <= self.limit:
            self._keep()
        if drop > self._tolerated(step):
            self.strength.mul_(1.0 if recovering else WEAKER)  # accuracy comes back slowly: wait while it does
        elif drop < 0.5 * self.limit:
            self.strength.div_(WEAKER).clamp_(max=1.0)
        check = Check(step, accuracy, float(self.strength), kept)
        self.history[len(before)] = torch.tensor(check, dtype=torch.float64)
        return check

    @property
    def checks(self) -> list[Check]:
        """All looks at the accuracy so far."""
        done = self.history[~self.history[:, 0].isnan()].tolist()
        return [Check(int(step), accuracy, strength, bool(kept)) for step, accuracy, strength, kept in done]

    @property
    def kept_step(self) -> int:
        """The step after which the kept state was reached; 0 for the original network."""
        return max((check.step for check in self.checks if check.kept), default=0)

    def restore_kept(self) -> None:
        """Put the kept state into the network."""
        self.model.load_state_dict(
            {name: getattr(self, f"kept_{at}") for at, name in enumerate(self.model.state_dict())}
        )

    def _keep(self) -> None:
        for at, value in enumerate(self.model.state_dict().values()):
            getattr(self, f"kept_{at}").copy_(value)

    def _tolerated(self, step: int) -> float:
        """The drop that is tolerated: accuracy recovers while the learning rate falls, so it shrinks."""
        return self.limit * (PATIENCE + (TARGET - PATIENCE) * min(1.0, self._done(step) / SETTLED))

    def _done(self, step: int) -> float:
        """The share of the steps after the warm-up that is done."""
        return max(0, step - self.warm_up) / max(1, self.steps - self.warm_up)
