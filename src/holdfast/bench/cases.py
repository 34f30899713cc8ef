"""What is compared with whom. Peers come from the `dev` extra; a peer that is not installed is left out and named."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

import holdfast as hf
from holdfast.bench.timing import Case
from holdfast.losses import CrossEntropy


def cases(*, quick: bool = False) -> Iterator[Case]:
    """All comparisons whose peer is installed; `quick` shrinks the work to see that everything runs."""
    makers: tuple[tuple[str, Callable[[bool], Iterator[Case]]], ...] = (
        ("captum", _integrated_gradients),
        ("captum", _standardising_network),
        ("scipy", _rank_metrics),
        ("foolbox", _pgd_foolbox),
    )
    for package, make in makers:
        if find_spec(package) is not None:
            yield from make(quick)


def _network(name: str, shape: tuple[int, int, int], **options: Any) -> torch.nn.Module:
    net = hf.models.build(name, num_classes=10, in_channels=shape[0], image_size=shape[1], seed=0, **options)
    return net.eval().requires_grad_(False)


def _images(batch: int, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(batch, *shape, generator=generator), torch.arange(batch) % 10


def _largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


def _integrated_gradients(quick: bool) -> Iterator[Case]:
    from captum.attr import IntegratedGradients

    model, (x, y) = _network("paper-cnn", (1, 28, 28)), _images(4 if quick else 32, (1, 28, 28))
    steps = 5 if quick else 50
    ours, theirs = hf.IntegratedGradients(steps=steps), IntegratedGradients(model)
    yield Case(
        name=f"IG, {steps} points, batch {len(x)}, paper-cnn",
        peer="captum",
        ours=lambda: ours(model, x, y),
        theirs=lambda: theirs.attribute(x, target=y, n_steps=steps, method="riemann_right"),
        difference=_largest,
        tolerance=1e-5,
        target=1.3,
    )


def _standardising_network(quick: bool) -> Iterator[Case]:
    from captum.attr import IntegratedGradients

    for side in (32,) if quick else (32, 128):
        shape = (3, side, side)
        model = _network("paper-resnet", shape, units_per_stage=1)
        x, y = _images(2 if quick else (16 if side == 32 else 4), shape)
        steps = 5 if quick else 50
        ours, theirs = hf.IntegratedGradients(steps=steps), IntegratedGradients(model)
        yield Case(
            name=f"IG, {steps} points, paper-resnet at {side} x {side}",
            peer="captum",
            ours=partial(ours, model, x, y),
            theirs=partial(theirs.attribute, x, target=y, n_steps=steps, method="riemann_right"),
            difference=_largest,
            tolerance=1e-4,
            target=1.0 if quick else 20.0,
        )


def _rank_metrics(quick: bool) -> Iterator[Case]:
    from scipy import stats

    pairs: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor], Callable[..., Any], float], ...] = (
        ("Kendall", hf.metrics.kendall_tau, stats.kendalltau, 4.0),
        ("Spearman", hf.metrics.spearman_rho, stats.spearmanr, 5.0),
    )
    for batch, entries in ((8, 100),) if quick else ((256, 784), (32, 16384)):
        generator = torch.Generator().manual_seed(0)
        a, b = (torch.randn(batch, entries, generator=generator).clamp_min(0) for _ in range(2))
        for name, ours, peer, target in pairs:
            yield Case(
                name=f"{name}, [{batch}, {entries}]",
                peer="scipy in a loop",
                ours=partial(ours, a, b),
                theirs=partial(_row_by_row, peer, a, b),
                difference=lambda p, q: float((p - q).abs().max()),
                tolerance=1e-6,
                target=target,
            )


def _row_by_row(peer: Callable[..., Any], a: Tensor, b: Tensor) -> Tensor:
    return torch.tensor([peer(p, q).statistic for p, q in zip(a.numpy(), b.numpy(), strict=True)])


def _pgd_foolbox(quick: bool) -> Iterator[Case]:
    import foolbox

    model, (x, y) = _network("paper-cnn", (1, 28, 28)), _images(4 if quick else 100, (1, 28, 28))
    steps, eps = (2 if quick else 40), 0.1
    ours = hf.PGD(CrossEntropy(), ball=hf.Linf(eps), steps=steps, step_size=eps / 10, best_by=hf.LAST)
    theirs = foolbox.attacks.LinfPGD(abs_stepsize=eps / 10, steps=steps, random_start=False)
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    keys = hf.make_keys(0, torch.arange(len(x)))
    yield Case(
        name=f"PGD, {steps} steps, batch {len(x)}, paper-cnn",
        peer="foolbox",
        ours=lambda: ours(model, x, y, keys=keys),
        theirs=lambda: theirs(wrapped, x, y, epsilons=eps)[1],
        difference=lambda p, q: float(((p - q).abs() > 1e-5).double().mean()),  # share of pixels that differ
        tolerance=0.01,
        target=1.1,
    )
