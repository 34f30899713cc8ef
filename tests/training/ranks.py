"""What each of two processes runs; also started by torchrun, as `-m tests.training.ranks`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from tests.training.stand_in import StandIn, digits, plain_net, train
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.training import Adam, Interrupted, joined, pick_device

# 61 examples in batches of 15: slices of 7 and 8, and a last batch of one example, of which one process gets none
UNEVEN = {"examples": 61, "batch_size": 15}
OPTIONS: dict[str, Any] = {
    "net": plain_net,
    "steps": 11,
    "settings": Adam(lr=0.01, weight_decay=1e-3),
    "checkpoint_every": 4,
}


def run(folder: Path, **options: Any) -> None:
    """Train on the slice of this process; write weights, or the error, to files named after the rank."""
    with joined(pick_device("cpu")) as processes:
        loader = digits(rank=processes.rank, world_size=processes.world_size, **UNEVEN)
        try:
            objective, result = train(folder / "run", loader=loader, **(OPTIONS | options))
        except HoldfastError as error:
            step = error.step if isinstance(error, Interrupted) else ""
            (folder / f"error-{processes.rank}").write_text(f"{type(error).__name__} {step}: {error}")
            return
        safetensors.torch.save_file(objective.model.state_dict(), folder / f"weights-{processes.rank}")
        (folder / f"result-{processes.rank}").write_text(f"{result.example_passes} {result.parts['total']!r}")


def run_signalled(folder: Path) -> None:
    """Process 1 alone gets SIGTERM, in its fifth step."""

    def at_step(objective: StandIn) -> None:
        if objective.calls == 4 and os.environ["RANK"] == "1":
            signal.raise_signal(signal.SIGTERM)

    run(folder, at_step=at_step)


def run_poisoned(folder: Path) -> None:
    """Process 1 alone gets a loss that is not a number."""

    def at_step(objective: StandIn) -> None:
        if objective.calls == 4 and os.environ["RANK"] == "1":
            with torch.no_grad():
                objective.model[-1].bias[0] = float("nan")

    run(folder, at_step=at_step)


class Spare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.spare = plain_net(), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.net(x)
        return logits


def run_unused(folder: Path) -> None:
    """A layer that nobody uses."""
    run(folder, net=Spare)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
