"""Timing of comparisons: confidence intervals, noisy rows, and more rounds for them."""

import pytest
import torch

from holdfast.bench import Case, plain, time_case
from holdfast.bench.timing import Timing, median_interval
from holdfast.bench.work import images, network
from holdfast.commands.bench import _repeated
from holdfast.engine.passes import add_passes


def case(**changes: object) -> Case:
    return Case(
        name="nothing", peer="nobody", ours=lambda: add_passes(3, 2), theirs=lambda: None, target=1.0, **changes
    )


def test_interval_of_the_median_by_hand() -> None:
    values = [float(i) for i in range(1, 101)]  # ranks 50.5 +- 9.8, counted from 1 and rounded outwards
    assert median_interval(values) == (40.0, 61.0)
    assert median_interval([2.0, 1.0, 3.0]) == (1.0, 3.0)  # too few values for less than their range
    assert median_interval([5.0]) == (5.0, 5.0)


def test_further_rounds_are_added_to_those_known() -> None:
    first = time_case(case(their_passes=12), rounds=2)
    more = time_case(case(their_passes=12), rounds=3, known=first)
    assert (first.rounds, more.rounds, more.passes) == (2, 5, (6, 12))
    assert more.pairs[:2] == first.pairs


def test_only_noisy_rows_are_repeated_and_only_for_the_time_given(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = time_case(case(), rounds=1)
    wide = Timing(**(vars(tight) | {"median_interval": (tight.ratio * 0.9, tight.ratio * 1.1)}))
    assert wide.noisy
    assert not tight.noisy
    kept: list[Timing] = []
    repeated: list[str] = []

    def again(what: Case, *, rounds: int, known: Timing) -> Timing:
        repeated.append(what.name)
        return tight if len(repeated) == 2 else Timing(**(vars(known) | {"rounds": known.rounds + rounds}))

    monkeypatch.setattr("holdfast.bench.time_case", again)
    pairs = [(case(), tight), (case(), wide)]
    assert _repeated(pairs, 4, minutes=1.0, keep=kept.append) == [tight, tight]
    assert (len(repeated), kept) == (2, [tight])
    assert _repeated(pairs, 4, minutes=0.0, keep=kept.append) == [tight, wide]


def test_passes_of_the_plain_audit_are_those_it_takes() -> None:
    pytest.importorskip("captum")
    net, (x, _) = network("digits-cnn", (1, 8, 8)), images(2, (1, 8, 8))
    y = net(x).argmax(1)
    seen = 0

    def count(_: object, args: tuple[torch.Tensor], __: object) -> None:
        nonlocal seen
        seen += len(args[0])

    hook = net.register_forward_hook(count)
    steps, points = 3, 4
    found = plain.audit_one_by_one(net, x, y, eps=0.1, steps=steps, k=10, points=points)
    hook.remove()
    assert found.shape == (2, 2)
    assert bool((found[:, 1] <= 1).all())
    # forward passes: PGD and its prediction, captum's maps, the search, the labels
    forward = 2 * (steps + 1 + points * (1 + steps) + points * steps + steps)
    assert seen == forward
    backward = 2 * (steps + points * (1 + steps) + 3 * points * steps)  # a gradient differentiated again: three passes
    assert plain.passes_of_audit(2, steps=steps, points=points) == forward + backward
