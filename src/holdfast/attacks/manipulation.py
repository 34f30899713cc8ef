"""Manipulation towards a target map without a norm ball (Dombrowski et al. 2019).

    minimise   w_map * MSE(map(x'), target) + w_out * MSE(softmax f(x'), softmax f(x))     over x' in [0, 1]^P

by Adam on the image, on the softplus surrogate. Its sharpness grows geometrically, so that the result transfers to the
ReLU network. There is no bound on the perturbation; only the weight on the output limits it.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.saliency import map_of
from holdfast.attribution.scores import true_probability
from holdfast.engine.checks import check_images, check_labels
from holdfast.engine.gradients import check_logits
from holdfast.engine.modes import evaluating
from holdfast.errors import expected
from holdfast.models.double_backward import require_second_order
from holdfast.models.surrogate import softplus_surrogate
from holdfast.types import Attribution, Model


@dataclass(frozen=True, kw_only=True)
class Manipulation:
    """Optimise the image with Adam towards `target`, a map [H, W] or one per example [B, H, W].

    Maps are normalised to sum 1 before they are compared. The defaults are those of the authors' code (map weight 1e11,
    output weight 1e6, 1,500 steps of 2e-4, beta 10 to 100, 30-point integrated gradients of the probability).
    """

    target: Tensor
    steps: int = 1500
    learning_rate: float = 2e-4
    map_weight: float = 1e11
    output_weight: float = 1e6
    betas: tuple[float, float] = (10.0, 100.0)
    attribution: Attribution = field(default_factory=lambda: IntegratedGradients(steps=30, score=true_probability))

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise expected("steps >= 1", got=self.steps)
        if not 0 < self.betas[0] <= self.betas[1]:
            raise expected("betas (first, last) with 0 < first <= last", got=self.betas)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """Perturbed images shaped like x, inside the pixel range. The attack is deterministic; `keys` are ignored."""
        check_images(x)
        check_labels(y, x.shape[0])
        with evaluating(model):
            require_second_order(model, x[:1])
            return self._optimise(model, x.detach(), y)

    def _optimise(self, model: Model, x: Tensor, y: Tensor) -> Tensor:
        target = self._normalised_target(x)
        with torch.no_grad():
            logits = check_logits(model(x), x)
            check_labels(y, x.shape[0], logits.shape[1])
            output = logits.softmax(1)
        x_adv = x.clone().requires_grad_()
        optimizer = torch.optim.Adam([x_adv], lr=self.learning_rate)
        for step in range(self.steps):
            loss = self._loss(model, x_adv, y, target, output, self._beta(step))
            optimizer.zero_grad()
            (x_adv.grad,) = torch.autograd.grad(loss, x_adv)
            optimizer.step()
            with torch.no_grad():
                x_adv.clamp_(0, 1)
        return x_adv.detach()

    def _loss(self, model: Model, x_adv: Tensor, y: Tensor, target: Tensor, output: Tensor, beta: float) -> Tensor:
        """The loss summed over the batch. Adam updates each entry separately, so examples do not interact."""
        shown = map_of(model, x_adv, y, self.attribution, beta=beta, graph=True)
        shown = shown / (shown.shape[1] * shown.shape[2])
        with softplus_surrogate(beta):
            out = model(x_adv).softmax(1)
        of_map = (shown - target).square().mean((1, 2))
        of_output = (out - output).square().mean(1)
        return (self.map_weight * of_map + self.output_weight * of_output).sum()

    def _beta(self, step: int) -> float:
        first, last = self.betas
        return first * math.pow(last / first, step / max(1, self.steps - 1))

    def _normalised_target(self, x: Tensor) -> Tensor:
        if self.target.shape not in ((x.shape[0], *x.shape[2:]), x.shape[2:]):
            wanted = f"a target map of {list(x.shape[2:])}, or one per image"
            raise expected(wanted, got=f"shape {list(self.target.shape)}")
        if not bool((self.target.abs().sum((-2, -1)) > 0).all()):
            raise expected("a target map with some mass", got="one that is zero everywhere")
        amount = self.target.to(x).abs().expand(x.shape[0], *x.shape[2:])
        return amount / amount.sum((1, 2), keepdim=True)
