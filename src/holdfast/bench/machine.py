"""Share of the machine's peak speed that the engine reaches, growth of cost with size, and peak memory."""

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import holdfast as hf
from holdfast.bench.cases import EPS
from holdfast.bench.residual import residual_networks, residual_work
from holdfast.bench.timing import Row, median_interval, middle, seconds
from holdfast.bench.work import GREY, images, keys, network
from holdfast.engine.passes import count_passes
from holdfast.losses import CrossEntropy, IGNorm
from holdfast.recipes import ifia

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class ShareCase:
    """Work on a network that takes `flops` floating-point operations per pass, and the target for its share."""

    name: str
    work: Work
    flops: int
    target: float


@dataclass(frozen=True, kw_only=True)
class Share(Row):
    """Share of the matrix-product rate: passes x FLOPs per pass / time, divided by the rate of a matrix product."""

    seconds: float
    example_passes: int
    passes_per_second: float
    share: float
    sgemm_gflops: float
    samples: tuple[tuple[float, float], ...] = ()
    """Rate of the matrix product in FLOP/s and seconds of the work, of every round."""

    @property
    def value(self) -> float:
        """The median share."""
        return self.share


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Exponent of the cost as a function of one size, from the two ends of a range; 1 means proportional."""

    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    exponent: float


def share_cases(*, quick: bool) -> Iterator[ShareCase]:
    """The two innermost loops of paper-cnn, and the first and second order of the residual networks."""
    model = network()
    for name, work in (("ERAR inner step", _erar(model, quick)), ("IFIA iteration", _ifia(model, quick))):
        yield ShareCase(name=f"{name}, paper-cnn", work=work, flops=flops_of_a_pass(model), target=0.65)
    for name, net, side, batch in residual_networks(quick):
        flops = flops_of_a_pass(net, (3, side, side))
        first, second = residual_work(net, side, batch)
        yield ShareCase(name=f"PGD, {name}", work=first, flops=flops, target=0.65 if side == 128 else 0.5)
        yield ShareCase(name=f"gradient of a map loss, {name}", work=second, flops=flops, target=0.4)


def slopes(*, quick: bool) -> Iterator[Slope]:
    """Measure the time of a map as a function of points, batch size and image side (pixels = side squared)."""
    model, side = network(), GREY[1]
    few = (2, 4) if quick else (10, 40)
    yield _slope("IG, points", few, lambda n: _map(model, 8, n, side))
    yield _slope("IG, batch", few, lambda n: _map(model, n, 10, side))
    sides = (8, 16) if quick else (28, 56)
    nets = {s: network(shape=(1, s, s)) for s in sides}
    yield _slope("IG, image side", sides, lambda s: _map(nets[s], 8, 10, s))


def flops_of_a_pass(model: nn.Module, shape: tuple[int, int, int] = GREY) -> int:
    """Floating-point operations of a forward pass of one image; a backward pass to the image costs the same."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, *shape))
    return int(counter.get_total_flops())


def sgemm(size: int = 1024) -> float:
    """Seconds for one product of two `size` x `size` matrices, the best of five."""
    a = torch.randn(size, size)
    return min(seconds(lambda: a @ a) for _ in range(5))


STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """Peak resident memory of this process so far, in bytes.

    On Linux the figure of `getrusage` includes the peak of the process that started this one, so /proc is read instead.
    """
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return 1024 * (found[0] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def time_share(case: ShareCase, *, rounds: int, known: Share | None = None) -> Share:
    """Time `rounds` rounds; `known` is an earlier result of the same case, whose rounds count, too."""
    with count_passes() as counter:
        case.work()
    samples, size = [] if known is None else [*known.samples], 1024
    # measure the matrix-product rate in every round, since it varies over minutes
    samples += [(2 * size**3 / sgemm(size), seconds(case.work)) for _ in range(rounds)]
    found = [counter.passes * case.flops / time / rate for rate, time in samples]
    taken = median(time for _, time in samples)
    return Share(
        name=case.name,
        seconds=taken,
        example_passes=counter.passes,
        passes_per_second=counter.passes / taken,
        share=median(found),
        interval=middle(found),
        median_interval=median_interval(found),
        sgemm_gflops=median(rate for rate, _ in samples) / 1e9,
        rounds=len(samples),
        target=case.target,
        samples=tuple(samples),
    )


def _slope(name: str, sizes: tuple[int, ...], work: Callable[[int], Work]) -> Slope:
    times = []
    for size in sizes:
        job = work(size)
        job()
        times.append(min(seconds(job) for _ in range(5)))  # other work on the machine only makes a round longer
    exponent = log(times[-1] / times[0]) / log(sizes[-1] / sizes[0])
    return Slope(name=name, sizes=sizes, seconds=tuple(times), exponent=exponent)


def _map(model: nn.Module, batch: int, points: int, side: int) -> Work:
    x, y = images(batch, (1, side, side))
    explain = hf.IntegratedGradients(steps=points)
    return lambda: explain(model, x, y)


def _erar(model: nn.Module, quick: bool) -> Work:
    x, y = images(4 if quick else 50)
    loss = CrossEntropy() + IGNorm(steps=2 if quick else 10)
    attack = hf.PGD(loss, ball=hf.Linf(EPS), steps=2, step_size=0.01, random_start=True, best_by=hf.LAST)
    return lambda: attack(model, x, y, keys=keys(len(x)))


def _ifia(model: nn.Module, quick: bool) -> Work:
    x, _ = images(2 if quick else 16)
    y = model(x).argmax(1)
    attack = ifia(eps=EPS, step_size=0.01, steps=2, k=200, ig_steps=4 if quick else 100)
    return lambda: attack(model, x, y, keys=keys(len(x)))
