"""The engine on residual networks, against the plain ten-line versions in both memory layouts."""

import copy
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks.problem import Problem
from holdfast.attribution.saliency import map_of
from holdfast.bench import plain
from holdfast.bench.timing import Case
from holdfast.bench.work import images, keys, network, relative_distance
from holdfast.engine.modes import frozen
from holdfast.losses import CrossEntropy, MapCosine
from holdfast.recipes.attacks.strongest import members
from holdfast.types import Pair

EPS, BETA, STEPS = 8 / 255, 5.0, 5
MOST = 1.5
"""Target for a step of an attack on maps, in units of a plain gradient of a map loss."""

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
    """First order, second order and steps of attacks on maps, each against the plain version in both layouts."""
    for name, net, side, batch in residual_networks(quick):
        x = _images(side, batch)
        y = net(x).argmax(1)
        for layout, memory in LAYOUTS.items():
            peer = copy.deepcopy(net)
            peer.to(memory_format=memory)  # type: ignore[call-overload]  # missing from its stubs
            for make in (_first_order, _second_order, _cosine_steps, _ascent_steps):
                yield make(name, layout, net, peer, x, y, x.contiguous(memory_format=memory))


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
    moved = _moved(x)
    with torch.no_grad():
        clean = loss.prepare(net, Pair(x, x, y))

    def ours() -> Tensor:
        with frozen(net):
            x_adv = moved.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(net, Pair(x, x_adv, y), clean).sum(), x_adv)
        return gradient

    return Case(
        name=f"gradient of a map loss, batch {len(x)}, {name}",
        peer=f"ten lines, {layout}",
        ours=ours,
        theirs=_plain_gradient(net, peer, x, y, theirs),
        difference=relative_distance,
        tolerance=0.01,
        target=1.0,
    )


def _cosine_steps(
    name: str, layout: str, net: nn.Module, peer: nn.Module, x: Tensor, y: Tensor, theirs: Tensor
) -> Case:
    attack = hf.recipes.ifia(
        eps=EPS, step_size=EPS / 4, steps=STEPS, k=x.shape[-1], kind="cosine", attribution=hf.InputXGradient()
    )
    work = lambda: attack(net, x, y, keys=keys(len(x)))  # noqa: E731
    return _steps_case("the cosine attack", name, layout, work, _plain_gradient(net, peer, x, y, theirs), len(x))


def _ascent_steps(
    name: str, layout: str, net: nn.Module, peer: nn.Module, x: Tensor, y: Tensor, theirs: Tensor
) -> Case:
    explained = hf.InputXGradient(score=hf.centred_logit)
    problem = Problem(
        model=net,
        x=x,
        y=y,
        keys=keys(len(x)),
        ball=hf.Linf(EPS),
        attribution=explained,
        searched=explained,
        clean_maps=map_of(net, x, y, explained).detach(),
    )
    (member,) = (one for one in members(x.shape[-1]) if one.name == "topk-sharp")
    start = _moved(x)
    work = lambda: list(member.images(problem, start, STEPS, 1, torch.zeros_like(y)))  # noqa: E731
    gradient = _plain_gradient(net, peer, x, y, theirs)
    return _steps_case(member.name, name, layout, work, gradient, len(x))


def _steps_case(
    attack: str, name: str, layout: str, ours: Callable[[], object], gradient: Callable[[], Tensor], batch: int
) -> Case:
    """Steps of an attack, with all that belongs to them, against as many gradients of a map loss in ten lines."""
    return Case(
        name=f"{STEPS} steps of {attack}, batch {batch}, {name} (at most {MOST} times the time)",
        peer=f"{STEPS} gradients, {layout}",
        ours=ours,
        theirs=lambda: [gradient() for _ in range(STEPS)],
        target=1 / MOST,
        rounds=3,
    )


def _plain_gradient(net: nn.Module, peer: nn.Module, x: Tensor, y: Tensor, theirs: Tensor) -> Callable[[], Tensor]:
    """The gradient of a map loss as the peer computes it, in the layout of its images `theirs`."""
    with torch.no_grad():
        clean = MapCosine(attribution=hf.InputXGradient(), beta=BETA).prepare(net, Pair(x, x, y))
    last = theirs.stride(1) == 1
    start = _moved(x).contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    return lambda: plain.map_gradient(peer, start, y, clean["map"], beta=BETA)


def _moved(x: Tensor) -> Tensor:
    """Images near x, where a loss that compares maps with those at x has a gradient."""
    return (x + 0.02).clamp(0, 1)
