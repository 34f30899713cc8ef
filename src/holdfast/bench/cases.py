"""The comparisons with other libraries (peers) from the `dev` extra; peers that are not installed are skipped."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

import holdfast as hf
from holdfast import rng
from holdfast.bench import plain
from holdfast.bench.residual import residual_cases
from holdfast.bench.timing import Case
from holdfast.bench.work import images, keys, network, relative_difference, share_that_differs
from holdfast.losses import CrossEntropy, IGNorm
from holdfast.recipes import METHODS, ifia

EPS = 0.3
FAST_POINTS = 10
"""Midpoints of the fast protocol; benchmarks/fast_protocol.py shows that it measures the same."""


def cases(*, quick: bool = False) -> Iterator[Case]:
    """All comparisons whose peer is installed; `quick` uses tiny inputs, to check that everything runs."""
    makers: tuple[tuple[str, Callable[[bool], Iterator[Case]]], ...] = (
        ("captum", _integrated_gradients),
        ("captum", _standardising_network),
        ("foolbox", _pgd_foolbox),
        ("art", _pgd_art),
        ("scipy", _rank_metrics),
        ("scipy", _ifia_iteration),
        ("torch", _fast_protocol),
        ("torch", _erar_inner_step),
        ("torch", _erar_step),
        ("torch", residual_cases),
        ("captum", _audit),
    )
    for package, make in makers:
        if find_spec(package) is not None:
            yield from make(quick)


def _integrated_gradients(quick: bool) -> Iterator[Case]:
    from captum.attr import IntegratedGradients

    model, (x, y) = network(), images(4 if quick else 32)
    steps = 5 if quick else 50
    ours, theirs = hf.IntegratedGradients(steps=steps), IntegratedGradients(model)
    exact = network().double()

    def apart(_: Tensor, __: Tensor) -> float:
        # In double precision: in single precision, nearly equal pixels of a pooling window can swap ranks.
        peer = IntegratedGradients(exact).attribute(x.double(), target=y, n_steps=steps, method="riemann_right")
        return relative_difference(ours(exact, x.double(), y), peer)

    yield Case(
        name=f"IG, {steps} points, batch {len(x)}, paper-cnn",
        peer="captum",
        ours=lambda: ours(model, x, y),
        theirs=lambda: theirs.attribute(x, target=y, n_steps=steps, method="riemann_right"),
        difference=apart,
        tolerance=1e-5,
        target=1.3,
    )


def _standardising_network(quick: bool) -> Iterator[Case]:
    from captum.attr import IntegratedGradients

    for side in (32,) if quick else (32, 128):
        model = network("paper-resnet", (3, side, side), units_per_stage=1 if quick else 5)
        x, y = images(2 if quick or side == 128 else 16, (3, side, side))
        x = x + 0.05 * rng.uniform(keys(len(x)), x)  # the shortcut needs pixels that are not constant
        steps = 5 if quick else 50
        ours, theirs = hf.IntegratedGradients(steps=steps), IntegratedGradients(model)
        long_way = hf.IntegratedGradients(steps=steps, shortcut=False)
        others: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("captum", partial(theirs.attribute, x, target=y, n_steps=steps, method="riemann_right")),
            ("our IG without the shortcut", partial(long_way, model, x, y)),
        )
        for peer, work in others:
            yield Case(
                name=f"IG, {steps} points, paper-resnet at {side} x {side}, batch {len(x)}",
                peer=peer,
                ours=partial(ours, model, x, y),
                theirs=work,
                difference=_worst_kendall,
                tolerance=1e-2,
                target=20.0,
                rounds=3,
            )


def _worst_kendall(a: Tensor, b: Tensor) -> float:
    """1 - the smallest Kendall correlation between two batches of maps."""
    return 1 - float(hf.metrics.kendall_tau(hf.saliency_map(a), hf.saliency_map(b)).min())


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

    model, (x, y) = network().requires_grad_(False), images(4 if quick else 100)
    steps = 2 if quick else 40
    theirs = foolbox.attacks.LinfPGD(abs_stepsize=EPS / 30, steps=steps, random_start=False)
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    yield _pgd_case(model, x, y, steps, "foolbox", lambda: theirs(wrapped, x, y, epsilons=EPS)[1], target=1.1)


def _pgd_art(quick: bool) -> Iterator[Case]:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    model, (x, y) = network(), images(4 if quick else 100)
    steps, shape = (2 if quick else 40), tuple(x.shape[1:])
    wrapped = PyTorchClassifier(
        model, loss=torch.nn.CrossEntropyLoss(), input_shape=shape, nb_classes=10, clip_values=(0, 1), device_type="cpu"
    )
    theirs = ProjectedGradientDescentPyTorch(
        wrapped, eps=EPS, eps_step=EPS / 30, max_iter=steps, batch_size=len(x), verbose=False
    )
    work = lambda: torch.from_numpy(theirs.generate(x.numpy(), y.numpy()))  # noqa: E731
    yield _pgd_case(model, x, y, steps, "ART toolbox", work, target=1.5)


def _pgd_case(
    model: torch.nn.Module, x: Tensor, y: Tensor, steps: int, peer: str, theirs: Callable[[], Tensor], *, target: float
) -> Case:
    ours = hf.PGD(CrossEntropy(), ball=hf.Linf(EPS), steps=steps, step_size=EPS / 30, best_by=hf.LAST)

    def apart(a: Tensor, b: Tensor) -> float:
        # Rounding decides the sign of tiny gradients, so the iterates differ; the final losses are compared instead.
        with torch.no_grad():
            reached = [float(torch.nn.functional.cross_entropy(model(found), y)) for found in (a, b)]
        return abs(reached[0] - reached[1]) / reached[1]

    return Case(
        name=f"PGD, {steps} steps, batch {len(x)}, paper-cnn",
        peer=peer,
        ours=lambda: ours(model, x, y, keys=keys(len(x))),
        theirs=theirs,
        difference=apart,
        tolerance=0.02,
        target=target,
    )


def _ifia_iteration(quick: bool) -> Iterator[Case]:
    model, (x, _) = network(), images(2 if quick else 64)
    y = model(x).argmax(1)  # all predictions correct, so that all images are attacked
    steps, points, k = 2, 4 if quick else 100, 200
    ours = ifia(eps=EPS, step_size=0.01, steps=steps, k=k, ig_steps=points)
    yield Case(
        name=f"IFIA, {steps} iterations, {points} points, {len(x)} images, paper-cnn",
        peer="one image at a time, plain autograd",
        ours=lambda: ours(model, x, y, keys=keys(len(x))),
        theirs=lambda: plain.ifia_one_by_one(
            model, x, y, eps=EPS, step_size=0.01, steps=steps, k=k, points=points
        ),
        difference=share_that_differs,
        tolerance=0.02,
        target=1.5,
        rounds=3,
    )  # fmt: skip


def _fast_protocol(quick: bool) -> Iterator[Case]:
    model, (x, _) = network(), images(2 if quick else 25)  # fills whole passes, as in an evaluation
    y = model(x).argmax(1)
    steps, points = (2, 10) if quick else (40, 100)
    shared: dict[str, Any] = {"eps": EPS, "step_size": 0.01, "steps": steps, "k": 200, "ig_steps": points}
    fast, full = ifia(**shared, search_ig_steps=1 if quick else FAST_POINTS), ifia(**shared)
    yield Case(
        name=f"IFIA, fast protocol, {steps} iterations, {len(x)} images",
        peer=f"paper protocol, {points} points",
        ours=lambda: fast(model, x, y, keys=keys(len(x))),
        theirs=lambda: full(model, x, y, keys=keys(len(x))),
        target=8.0,
        rounds=1,
    )


def _erar_inner_step(quick: bool) -> Iterator[Case]:
    model, (x, y) = network(), images(4 if quick else 50)
    steps, points = 2, 2 if quick else 10
    loss, ball = CrossEntropy() + IGNorm(steps=points), hf.Linf(EPS)
    ours = hf.PGD(loss, ball=ball, steps=steps, step_size=0.01, random_start=True, best_by=hf.LAST)
    start = ball.sample(rng.combine(keys(len(x)), 0), x)
    yield Case(
        name=f"ERAR inner step, {points} points, batch {len(x)}, paper-cnn",
        peer="plain eager autograd",
        ours=lambda: ours(model, x, y, keys=keys(len(x))),
        theirs=lambda: plain.erar_search(model, x, y, start, eps=EPS, step_size=0.01, steps=steps, points=points),
        difference=share_that_differs,
        tolerance=0.02,
        target=1.4,
    )


def _erar_step(quick: bool) -> Iterator[Case]:
    model, (x, y) = network(), images(4 if quick else 50)
    paper: dict[str, Any] = {"eps": EPS, "attack_steps": 40, "step_size": 0.01, "ig_steps": 50, "attack_ig_steps": 10}
    if quick:
        paper |= {"attack_steps": 2, "ig_steps": 4, "attack_ig_steps": 2}
    yield Case(
        name=f"ERAR training step, paper's settings, batch {len(x)} (at most 1.15 times the time)",
        peer="RAR IG-SUM-NORM step",
        ours=partial(_training_step, METHODS["erar"](model, **paper), x, y),
        theirs=partial(_training_step, METHODS["ig_sum_norm"](model, **paper), x, y),
        target=1 / 1.15,
        rounds=2,
    )


def _audit(quick: bool) -> Iterator[Case]:
    """Prediction and explanation under attack. The two search differently; their cost is compared, not their result."""
    model, (x, _) = network(), images(2 if quick else 16)
    y = model(x).argmax(1)
    steps, points, k = (2, 4, 50) if quick else (50, 50, 200)
    strongest = hf.recipes.strongest(eps=EPS, k=k, ig_steps=points, passes=100 if quick else 2000)
    pgd = hf.recipes.pgd(eps=EPS, steps=steps)

    def ours() -> None:
        pgd(model, x, y, keys=keys(len(x)))
        strongest(model, x, y, keys=keys(len(x)))

    yield Case(
        name=f"audit, {len(x)} images, {points} points, paper-cnn",
        peer="captum and a loop over images",
        ours=ours,
        theirs=lambda: plain.audit_one_by_one(model, x, y, eps=EPS, steps=steps, k=k, points=points),
        target=4.0,
        rounds=2,
        their_passes=plain.passes_of_audit(len(x), steps=steps, points=points),
    )


def _training_step(objective: Any, x: Tensor, y: Tensor) -> None:
    objective.zero_grad()
    objective(x, y, keys(len(x))).total.backward()
