"""The engine on residual networks, against the plain ten-line versions in both memory layouts."""

import copy
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.bench import plain
from holdfast.bench.timing import Case
from holdfast.bench.work import images, keys, network, relative_distance
from holdfast.engine.modes import frozen
from holdfast.losses import CrossEntropy, MapCosine
from holdfast.types import Pair

EPS, BETA = 8 / 255, 5.0
LAYOUTS = {"usual layout": torch.contiguous_format, "channels_last": torch.channels_last}


def residual_networks(quick: bool) -> Iterator[tuple[str, nn.Module, int, int]]:
    """Name, network, image side and batch size."""
    shape = (3, 32, 32)
    yield "paper-resnet 32²", network("paper-resnet", shape, units_per_stage=1 if quick else 2), 32, 2 if quick else 50
    if quick:
        return
    yield "paper-resnet 128²", network("paper-resnet", (3, 128, 128), units_per_stage=1), 128, 16
    yield "wrn-16-2", network("wrn-16-2", shape), 32, 32
    if find_spec("pytorchcv") is not None:
        from pytorchcv.models.resnet_cifar import resnet20_cifar10

        yield "ResNet-20", resnet20_cifar10().eval(), 32, 50


def residual_work(net: nn.Module, side: int, batch: int) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Our side of both comparisons: first and second order."""
    x = _images(side, batch)
    y = net(x).argmax(1)
    return _first_order("", "", net, net, x, y, x).ours, _second_order("", "", net, net, x, y, x).ours


def _images(side: int, batch: int) -> Tensor:
    x, _ = images(batch, (3, side, side))
    return (x + 0.05 * torch.rand(x.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)


def residual_cases(quick: bool) -> Iterator[Case]:
    """First and second order on every network, each against the plain version in both layouts."""
    for name, net, side, batch in residual_networks(quick):
        x = _images(side, batch)
        y = net(x).argmax(1)
        for layout, memory in LAYOUTS.items():
            peer = copy.deepcopy(net)
            peer.to(memory_format=memory)  # type: ignore[call-overload]  # missing from its stubs
            yield _first_order(name, layout, net, peer, x, y, x.contiguous(memory_format=memory))
            yield _second_order(name, layout, net, peer, x, y, x.contiguous(memory_format=memory))


def _first_order(name: str, layout: str, net: nn.Module, peer: nn.Module, x: Tensor, y: Tensor, theirs: Tensor) -> Case:
    attack = hf.PGD(CrossEntropy(), ball=hf.Linf(EPS), steps=5, step_size=EPS / 4, best_by=hf.LAST)

    def apart(a: Tensor, b: Tensor) -> float:
        # Rounding decides the sign of tiny gradients, so the iterates differ; the final losses are compared instead.
        with torch.no_grad():
            reached = [float(nn.functional.cross_entropy(net(found), y)) for found in (a, b)]
        return abs(reached[0] - reached[1]) / reached[1]

    return Case(
        name=f"PGD, 5 steps, batch {len(x)}, {name}",
        peer=f"ten lines, {layout}",
        ours=lambda: attack(net, x, y, keys=keys(len(x))),
        theirs=lambda: plain.pgd(peer, theirs, y, eps=EPS, step_size=EPS / 4, steps=5),
        difference=apart,
        tolerance=0.02,
        target=1.0,
    )


def _second_order(
    name: str, layout: str, net: nn.Module, peer: nn.Module, x: Tensor, y: Tensor, theirs: Tensor
) -> Case:
    loss = MapCosine(attribution=hf.InputXGradient(), beta=BETA)
    moved = (x + 0.02).clamp(0, 1)
    with torch.no_grad():
        clean = loss.prepare(net, Pair(x, x, y))

    def ours() -> Tensor:
        with frozen(net):
            x_adv = moved.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(net, Pair(x, x_adv, y), clean).sum(), x_adv)
        return gradient

    start = moved.contiguous(memory_format=torch.channels_last if theirs.stride(1) == 1 else torch.contiguous_format)
    return Case(
        name=f"gradient of a map loss, batch {len(x)}, {name}",
        peer=f"ten lines, {layout}",
        ours=ours,
        theirs=lambda: plain.map_gradient(peer, start, y, clean["map"], beta=BETA),
        difference=relative_distance,
        tolerance=0.01,
        target=1.0,
    )
