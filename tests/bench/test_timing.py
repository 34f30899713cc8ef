"""Timing of comparisons: confidence intervals, noisy rows, and more rounds for them."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from holdfast.bench import Case, Memory, Row, Share, ShareCase, plain, time_case, time_share
from holdfast.bench.machine import Work
from holdfast.bench.timing import median_interval
from holdfast.bench.work import images, network
from holdfast.commands.bench import _against_target, _append, _memory, _repeated
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


def share_of(work: Work) -> ShareCase:
    return ShareCase(name="share", work=work, flops=1000, target=0.5)


def test_the_lower_end_of_the_interval_meets_the_target() -> None:
    timing = time_case(case(), rounds=1)
    on_the_line = replace(timing, ratio=1.01, median_interval=(0.99, 1.02))
    assert not on_the_line.reached
    assert replace(on_the_line, median_interval=(1.0, 1.02)).reached
    assert _against_target(on_the_line, quick=False) == ("1.01", "0.99 to 1.02", "1 (missed)")
    share = time_share(share_of(lambda: None), rounds=1)
    assert not replace(share, share=0.53, median_interval=(0.49, 0.54)).reached
    assert replace(share, share=0.53, median_interval=(0.5, 0.54)).reached


def test_a_share_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    times, products = iter([1.0, 2.0, 4.0]), iter([1.0, 1.0, 0.5])
    monkeypatch.setattr("holdfast.bench.machine.seconds", lambda _: next(times))
    monkeypatch.setattr("holdfast.bench.machine.sgemm", lambda size: 2 * size**3 / next(products))  # rates 1, 1, 0.5
    first = time_share(share_of(lambda: add_passes(3, 2)), rounds=1)
    assert (first.share, first.samples) == (6000.0, ((1.0, 1.0),))
    more = time_share(share_of(lambda: add_passes(3, 2)), rounds=2, known=first)
    assert more.samples == ((1.0, 1.0), (1.0, 2.0), (0.5, 4.0))
    assert (more.rounds, more.share, more.median_interval) == (3, 3000.0, (3000.0, 6000.0))
    assert more.noisy


@pytest.mark.parametrize("measure", [partial(time_case, case()), partial(time_share, share_of(lambda: None))])
def test_only_noisy_rows_are_repeated_and_only_for_the_time_given(measure: Callable[..., Row]) -> None:
    row = measure(rounds=1)
    tight = replace(row, **{"share" if isinstance(row, Share) else "ratio": 2.0}, median_interval=(2.0, 2.0))
    wide = replace(tight, median_interval=(1.8, 2.2))
    assert wide.noisy
    assert not tight.noisy
    kept: list[Row] = []
    repeated: list[str] = []

    def again(*, rounds: int, known: Row) -> Row:
        repeated.append(known.name)
        return tight if len(repeated) == 2 else replace(known, rounds=known.rounds + rounds)

    found = [(again, tight), (again, wide)]
    assert _repeated(found, 4, minutes=1.0, keep=kept.append) == [tight, tight]
    assert (len(repeated), kept) == (2, [tight])
    assert _repeated(found, 4, minutes=0.0, keep=kept.append) == [tight, wide]


def test_peak_memory_is_printed_and_written_with_its_target(tmp_path: Path) -> None:
    large = Memory(name="large images", seconds=1.0, peak=5 * 2**30)
    assert _memory(large) == "peak memory, large images: 5,120 MiB (target: at most 4,096 (missed))"
    assert replace(large, peak=4 * 2**30).reached
    _append(tmp_path / "lines.jsonl", [large], 1)
    (line,) = (tmp_path / "lines.jsonl").read_text().splitlines()
    assert {"kind": "memory", "target": 4 * 2**30, "peak": 5 * 2**30}.items() <= json.loads(line).items()


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
