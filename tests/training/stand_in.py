"""A small objective on real digits, and runs of it in processes of their own, to be killed."""

import multiprocessing
import os
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast import data, rng
from holdfast.data import Loader
from holdfast.errors import DataError
from holdfast.training import SGD, Adam, FitResult, Interrupted, fit

# The server of these processes has everything loaded; a new one costs milliseconds instead of seconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.training.warm"])


@dataclass(frozen=True)
class Output:
    total: Tensor
    parts: dict[str, Tensor]


class StandIn(nn.Module):
    """Cross-entropy on images with keyed noise in place of an attack, and the size of its gradient in the image.

    So its own gradient goes through a gradient, like that of the real objectives; it counts its calls in a buffer.
    """

    calls: Tensor

    def __init__(self, model: nn.Module, at_step: Callable[["StandIn"], None] | None = None) -> None:
        super().__init__()
        self.model = model
        self.budget = 1.0
        self.example_passes = 0
        self.at_step = at_step
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, y: Tensor, keys: Tensor) -> Output:
        if self.at_step:
            self.at_step(self)
        self.calls += 1
        self.example_passes += len(x)
        x_adv = (x + self.budget * 0.1 * rng.normal(keys, x)).clamp(0, 1).requires_grad_()
        logits = self.model(x_adv)
        losses = F.cross_entropy(logits, y, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), x_adv, create_graph=True)
        total = losses.mean() + 0.01 * gradient.abs().flatten(1).sum(1).mean()
        accuracy = (logits.argmax(1) == y).float().mean()
        return Output(total, {"total": total.detach(), "accuracy_perturbed": accuracy})


def dropout_net() -> nn.Module:
    """Dropout and batch norm: global randomness and buffers, both of which a resumed run has to get right."""
    torch.manual_seed(1)
    hidden = nn.Sequential(nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2))
    return nn.Sequential(nn.Flatten(), hidden, nn.Linear(12, 10))


def plain_net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def digits(examples: int = 100, **options: Any) -> Loader:
    options = {"batch_size": 16, "seed": 3} | options
    return Loader(data.load("digits", split="train").subset(range(examples)), **options)


def train(
    run_dir: Path | None = None,
    *,
    net: Callable[[], nn.Module] = dropout_net,
    settings: SGD | Adam | None = None,
    at_step: Callable[[StandIn], None] | None = None,
    loader: Loader | None = None,
    **options: Any,
) -> tuple[StandIn, FitResult]:
    """A run of six steps by default, with a checkpoint every second step and a log line at each."""
    torch.set_num_threads(1)
    objective = StandIn(net(), at_step)
    optimizer = (settings or Adam(lr=0.01, weight_decay=1e-3))(objective.model)
    options = {"steps": 6, "seed": 5, "checkpoint_every": 2, "log_every": 1, "warm_up": 0.5} | options
    return objective, fit(objective, loader or digits(), optimizer, run_dir=run_dir, progress=False, **options)


def same_weights(a: StandIn, b: StandIn) -> bool:
    """Bit for bit, with all buffers."""
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def in_process(function: Callable[..., None], *arguments: Any, **options: Any) -> Any:
    """A started process."""
    process = PROCESSES.Process(target=function, args=arguments, kwargs=options)
    process.start()
    return process


def train_and_report(run_dir: Path, **options: Any) -> None:
    """A run in a process of its own; exit code 130 and the message in a file if it was interrupted."""
    try:
        train(run_dir, **options)
    except Interrupted as stop:
        restored = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        (run_dir / "message").write_text(f"{stop} [restored: {restored}]")
        os._exit(130)


def train_on_small_disk(run_dir: Path, limit: int) -> None:
    """A run that may not write files of more than `limit` bytes; what it says about that goes into a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        train(run_dir)
    except DataError as error:
        (run_dir / "message").write_text(str(error))


def train_and_die(run_dir: Path, at: int, **options: Any) -> None:
    """A run that kills itself, as `kill -9` would, half-way through the `at`-th call that changes the disk."""
    calls = 0

    def dying(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                if name == "fsync":
                    lose_half(arguments[0])
                if name == "write":
                    original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **more)

        return call

    for name in ("fsync", "write", "replace", "rename", "rmdir"):
        setattr(os, name, dying(name))
    train(run_dir, **options)


def lose_half(handle: int) -> None:
    """Cut an unfinished file to half its size, as if the rest had not reached the disk."""
    path = Path(os.readlink(f"/proc/self/fd/{handle}"))
    if path.is_file() and ".part-" in str(path):
        os.ftruncate(handle, path.stat().st_size // 2)


def as_rank(rank: int, port: int, function: Callable[..., None], *arguments: Any, **options: Any) -> None:
    """Call a function with the environment that torchrun gives to process `rank` of two."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    function(*arguments, **options)


def two_processes(function: Callable[..., None], *arguments: Any, **options: Any) -> list[Any]:
    """Two started processes that find each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [in_process(as_rank, rank, port, function, *arguments, **options) for rank in (0, 1)]
