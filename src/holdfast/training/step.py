"""One training step: forward, backward and update, on any number of processes, with or without mixed precision."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from holdfast.errors import expected
from holdfast.rng import make_keys
from holdfast.training.distributed import Processes
from holdfast.training.guards import unreached, without_gradient
from holdfast.training.protocols import StepOutput, TrainableObjective, as_module
from holdfast.training.settings import FitSettings

_STREAM = 1 << 33  # separate from the noise of the attacks and the order of the examples


class Stepper:
    """Holds the objective, wrapped for all processes, and the optimiser. Build it after initialising the weights."""

    def __init__(
        self,
        objective: TrainableObjective,
        optimizer: torch.optim.Optimizer,
        processes: Processes,
        settings: FitSettings,
    ) -> None:
        self.module, self.optimizer, self.processes = as_module(objective), optimizer, processes
        self.parameters = _parameters(self.module, optimizer)
        self.device = self.parameters[0].device
        if settings.amp and self.device.type != "cuda":
            raise expected("a GPU with amp", got=self.device, fix="disable amp on this device")
        self.seed, self.amp, self.max_grad_norm = settings.seed, settings.amp, settings.max_grad_norm
        self.scaler = torch.amp.GradScaler("cuda", enabled=settings.amp)
        self.wrapped = processes.wrap(self.module)
        self.checked = False

    def forward(self, step: int, x: Tensor, y: Tensor, keys: Tensor) -> StepOutput:
        """Evaluate the objective. Dropout and other randomness of the network depend only on (seed, step, rank)."""
        rank = torch.tensor([self.processes.rank])
        torch.manual_seed(int(make_keys(self.seed, rank, stream=_STREAM + step)))
        with torch.autocast(self.device.type, enabled=self.amp):
            output: StepOutput = self.wrapped(x, y, keys)
        return output

    def backward(self, output: StepOutput, share: float) -> Tensor:
        """Replace the gradients by new ones; returns their norm over all parameters."""
        self.module.zero_grad(set_to_none=True)
        self.scaler.scale(output.total * share).backward()
        self._check_reached()
        self.scaler.unscale_(self.optimizer)
        return get_total_norm([p.grad for p in self.parameters if p.grad is not None])

    def update(self, gradient_norm: Tensor) -> None:
        """Clip the gradients if requested, and update the weights."""
        if self.max_grad_norm is not None:
            clip_grads_with_norm_(self.parameters, self.max_grad_norm, gradient_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def own_randomness(self) -> AbstractContextManager[None]:
        """A context that restores the caller's global random state at the end of the block."""
        devices = [self.device] if self.device.type == "cuda" else []
        return torch.random.fork_rng(devices)

    def _check_reached(self) -> None:
        """On the first step, check that every trainable parameter has a gradient in every process."""
        if self.checked:
            return
        names = without_gradient(self.module)
        if self.processes.sum(len(names))[0]:
            raise unreached(names or ["parameters in another process"])
        self.checked = True


def _parameters(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The parameters of the optimiser; raises if they do not belong to the module."""
    chosen: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
    known = {id(p) for p in module.parameters()}
    if any(id(p) not in known for p in chosen):
        fix = "build it from objective.model"
        raise expected("an optimizer of the objective's parameters", got="one with other tensors", fix=fix)
    return chosen
