"""The run directory and its statistics, against values worked out by hand."""

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DataError, HoldfastError, InputError
from holdfast.results import (
    COLUMNS,
    METRICS,
    OUTCOMES,
    Bootstrap,
    ExampleRow,
    Examples,
    Facts,
    Panels,
    append_log,
    collect_provenance,
    describe,
    find_runs,
    finish,
    metric_values,
    paired_difference,
    read_json,
    read_log,
    read_panels,
    read_run,
    summarise,
    summarise_attack,
    wilson,
    write_json_atomic,
    write_panels,
    write_text_atomic,
)
from holdfast.results.lines import repair
from holdfast.results.provenance import without_folders


def row(example: int, top_k: float | None = None, outcome: str = "attacked", **more: Any) -> ExampleRow:
    known: dict[str, Any] = {"attack": "ifia-topk", "label": 1, "prediction": 1, "kendall": top_k} | more
    return ExampleRow(id=example, top_k=top_k, outcome=outcome, **known)  # type: ignore[arg-type]


def refusal(action: Callable[[], Any]) -> str:
    """What holdfast says against it, "" if nothing; any other exception is a failure."""
    try:
        action()
    except HoldfastError as error:
        return str(error)
    return ""


FOUR = [row(0, 0.2), row(1, 0.4), row(2, outcome="unmoved"), row(3, outcome="misclassified", prediction=2)]
FACTS = Facts(dataset="digits", method="natural", preset="cpu", seed=0)


# ---- statistics ----


def test_describe_by_hand() -> None:
    stats = describe(np.array([4.0, 1.0, 3.0, 2.0]))
    assert stats["median"] == 2.5
    assert stats["mean"] == 2.5
    assert stats["quartiles"] == (1.75, 3.25)
    assert stats["n"] == 4
    assert stats["ci95"][0] <= 2.5 <= stats["ci95"][1]


def test_describe_nothing_is_not_available() -> None:
    stats = describe(np.array([]))
    assert stats["n"] == 0
    assert {stats[key] for key in ("median", "mean", "ci95", "mean_ci95", "quartiles")} == {None}


@pytest.mark.parametrize("n", [1, 2, 7, 8, 40, 41])
def test_median_interval_is_that_of_the_plain_bootstrap(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    fast = Bootstrap(resamples=20_000).median(values)
    draws = np.random.default_rng(1).integers(0, n, (50_000, n))
    plain = np.quantile(np.median(values[draws], axis=1), (0.025, 0.975))
    assert fast == pytest.approx(tuple(plain), abs=0.02)


def test_mean_interval_is_near_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = Bootstrap().mean(values) or (math.nan, math.nan)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_intervals_cover_about_95_percent() -> None:
    """With the default number of resamples; 600 trials leave a standard error of 1 %, and both should reach 94 %."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(600):
        values = rng.normal(size=40)
        for at, interval in enumerate((Bootstrap().median(values), Bootstrap().mean(values))):
            hits[at] += interval is not None and interval[0] <= 0 <= interval[1]
    assert (hits / 600 > 0.91).all()
    assert (hits / 600 < 0.975).all()


def test_same_seed_same_interval() -> None:
    values = np.random.default_rng(0).random(50)
    assert Bootstrap().median(values) == Bootstrap().median(values)
    assert Bootstrap().mean(values) == Bootstrap().mean(values)
    assert Bootstrap().mean(values) != Bootstrap(seed=1).mean(values)


def test_wilson_by_hand() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0, 0) is None


# ---- conventions and summary ----


@pytest.mark.parametrize(
    ("convention", "values"), [("failure_is_1", [0.2, 0.4, 1.0]), ("dropped", [0.2, 0.4]), ("worst", [0.2, 0.4, 0.2])]
)
def test_conventions_by_hand(convention: Any, values: list[float]) -> None:
    ids, found = metric_values(FOUR, "top_k", convention)
    assert found.tolist() == values
    assert ids.tolist() == [0, 1, 2][: len(values)]


def test_centre_shift_counts_the_other_way_round() -> None:
    rows = [row(0, 0.5, center_shift=2.0), row(1, 0.5, center_shift=5.0), row(2, outcome="label_lost")]
    assert metric_values(rows, "center_shift")[1].tolist() == [2.0, 5.0, 0.0]
    assert metric_values(rows, "center_shift", "worst")[1].tolist() == [2.0, 5.0, 5.0]


def test_worst_of_nothing_is_not_available() -> None:
    lost = [row(0, outcome="label_lost")]
    assert len(metric_values(lost, "top_k", "worst")[1]) == 0
    assert metric_values(lost, "top_k")[1].tolist() == [1.0]


def test_unknown_metric_is_refused() -> None:
    with pytest.raises(InputError, match="expected metric in top_k"):
        metric_values(FOUR, "topk")


def test_summary_of_an_attack_by_hand() -> None:
    summary = summarise_attack(FOUR)
    assert summary["top_k"]["median"] == 0.4
    assert summary["top_k"]["n"] == 3
    assert summary["failed_share"] == pytest.approx(1 / 3)
    assert summary["outcomes"] == {"attacked": 2, "misclassified": 1, "label_lost": 0, "unmoved": 1, "nan_map": 0}
    dropped = summary["conventions"]["dropped"]["top_k"]
    assert (dropped["median"], dropped["mean"], dropped["n"]) == pytest.approx((0.3, 0.3, 2))
    assert dropped["ci95"] == pytest.approx((0.2, 0.4))
    assert [item["n"] for item in summary["exclusions"]] == [1, 1, 2, 2, 2]
    assert summary["exclusions"][0]["reason"].startswith("misclassified: wrong before")
    assert any("1 of 3 attacks failed" in text for text in summary["warnings"])
    assert any("only 3 examples" in text for text in summary["warnings"])


def test_every_exclusion_is_counted() -> None:
    rows = [row(i, outcome=outcome) for i, outcome in enumerate(OUTCOMES) if outcome != "attacked"]
    summary = summarise_attack(rows)
    assert sum(item["n"] for item in summary["exclusions"]) == len(rows)
    assert summary["failed_share"] == 1.0


def test_wins_count_attacked_examples_only() -> None:
    rows = [
        row(0, 0.1, winner="a"),
        row(1, 0.1, winner="b"),
        row(2, 0.3, winner="a"),
        row(3, outcome="label_lost", winner="a"),
    ]
    assert summarise_attack(rows)["wins"] == {"a": 2, "b": 1}


def test_summary_has_the_promised_keys_and_no_nan(tmp_path: Path) -> None:
    rows = [*FOUR, row(0, 0.9, attack="random"), row(1, outcome="nan_map", attack="random")]
    summary = summarise(rows, FACTS)
    promised = (
        "dataset method preset seed n natural_accuracy pgd_accuracy example_passes train_seconds provenance attacks"
    )
    assert set(promised.split()) <= set(summary)
    assert summary["n"] == 4
    assert summary["natural_accuracy"] == 0.75
    assert summary["natural_accuracy_ci95"] == wilson(3, 4)
    assert summary["pgd_accuracy"] is None
    assert set(summary["attacks"]) == {"ifia-topk", "random"}
    write_json_atomic(tmp_path / "summary.json", summary | {"extra": [float("nan"), np.float32(0.5), Path("/a/b")]})
    assert "NaN" not in (tmp_path / "summary.json").read_text()
    assert read_json(tmp_path / "summary.json")["extra"] == [None, 0.5, "b"]


def test_given_accuracies_replace_those_of_the_subset() -> None:
    facts = Facts(dataset="d", method="m", preset="p", seed=1, natural_accuracy=0.9, pgd_accuracy=0.5, accuracy_n=1000)
    summary = summarise(FOUR, facts)
    assert summary["natural_accuracy"] == 0.9
    assert summary["pgd_accuracy_n"] == 1000
    assert summary["pgd_accuracy_ci95"] == pytest.approx((0.469, 0.531), abs=1e-3)


def test_paired_difference_by_hand() -> None:
    a = [row(i, v) for i, v in enumerate([0.1, 0.2, 0.3])] + [row(7, 0.9)]
    b = [row(i, v) for i, v in enumerate([0.2, 0.4, 0.9])] + [row(8, outcome="misclassified")]
    difference = paired_difference(a, b, "top_k")
    assert difference.median == pytest.approx(0.2)
    assert difference.mean == pytest.approx(0.3)
    assert (difference.n, difference.unpaired) == (3, 1)
    assert difference.ci95 is not None
    assert difference.ci95[0] >= 0.1 - 1e-9


def test_pairing_narrows_the_interval() -> None:
    base = np.random.default_rng(0).random(200) * 0.8
    a, b = [row(i, v) for i, v in enumerate(base)], [row(i, v + 0.05) for i, v in enumerate(base)]
    difference = paired_difference(a, b, "top_k")
    assert difference.mean_ci95 == pytest.approx((0.05, 0.05))
    assert not difference.includes_zero
    assert paired_difference(a, a, "top_k").includes_zero


def test_paired_difference_without_common_examples_says_so() -> None:
    difference = paired_difference([row(0, 0.1)], [row(1, 0.1)], "kendall")
    assert difference.n == 0
    assert difference.ci95 is None
    assert difference.includes_zero
    with pytest.raises(InputError, match="rows of one attack"):
        paired_difference([row(0, 0.1), row(0, 0.1, attack="random")], [row(0, 0.1)], "kendall")


# ---- rows on disk ----

numbers = st.one_of(st.none(), st.floats(-1, 1))
rows_strategy = st.builds(
    ExampleRow,
    attack=st.sampled_from(["ifia-topk", "a,b", 'say "x"', "ünïcode"]),
    id=st.integers(0, 2**53 - 1),
    label=st.integers(0, 999),
    prediction=st.integers(0, 999),
    pgd_correct=st.sampled_from([None, True, False]),
    outcome=st.sampled_from(OUTCOMES),
    top_k=st.one_of(st.none(), st.floats(0, 1)),
    kendall=numbers,
    spearman=numbers,
    cosine=numbers,
    center_shift=st.one_of(st.none(), st.floats(0, 1e3)),
    completeness_gap=numbers,
)


@given(rows=st.lists(rows_strategy, unique_by=lambda r: (r.attack, r.id), max_size=8), cut=st.integers(0, 10_000))
def test_rows_come_back_bit_equal_and_a_cut_file_gives_a_prefix(
    rows: list[ExampleRow], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = Examples(tmp_path_factory.mktemp("rows") / "examples.csv")
    table.append(rows[:3])
    table.append(rows[3:])
    if not rows:
        return
    assert table.read().rows == tuple(rows)
    content = table.path.read_bytes()
    table.path.write_bytes(content[: cut % (len(content) + 1)])
    prefix = table.read().rows
    assert prefix == tuple(rows[: len(prefix)])
    table.append(rows[len(prefix) :])  # a resumed evaluation writes the rest
    assert table.path.read_bytes() == content


def test_torn_last_line_is_dropped_and_reported(tmp_path: Path) -> None:
    table = Examples(tmp_path / "examples.csv")
    table.append(FOUR)
    with table.path.open("ab") as file:
        file.write(b"ifia-topk,9,1,1,,attacked,0.5")
    found = table.read()
    assert found.rows == tuple(FOUR)
    assert "cut off by an interruption" in found.notes[0]
    assert table.done() == {("ifia-topk", i) for i in range(4)}
    table.append([row(9, 0.75)])
    assert table.read().rows[-1] == row(9, 0.75)
    assert not table.read().notes


def test_repair_finds_the_line_end_far_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"{}\n" + b"x" * 200_000)
    assert repair(path) == 200_000
    assert path.read_bytes() == b"{}\n"


def test_repeated_rows_are_dropped_and_conflicting_ones_refused(tmp_path: Path) -> None:
    table = Examples(tmp_path / "examples.csv")
    table.append(FOUR)
    table.append(FOUR[:2])
    assert table.read().rows == tuple(FOUR)
    assert "2 repeated rows" in table.read().notes[0]
    table.append([row(0, 0.9)])
    with pytest.raises(DataError, match="got two that differ; delete one"):
        table.read()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ifia-topk,x,1,1,,attacked,,,,,,,", "line 2 .*invalid literal"),
        ("ifia-topk,1,1,1,,attacked,abc,,,,,,", "could not convert"),
        ("ifia-topk,1,1,1,,attacked,1.5,,,,,,", r"finite top_k in \[0, 1\]"),
        ("ifia-topk,1,1,1,,exploded,,,,,,,", "outcome in attacked"),
        ("ifia-topk,1,1,1,2,attacked,,,,,,,", "0, 1 or nothing"),
        ("ifia-topk,1,1", "expected 13 cells, got 3"),
        ('"ifia-topk,1,1', "examples.csv"),
    ],
)
def test_broken_rows_name_file_line_and_fix(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "examples.csv"
    path.write_text(",".join(COLUMNS) + "\n" + line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        Examples(path).read()
    assert "delete the" in str(caught.value)


def test_foreign_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "examples.csv"
    path.write_text("id,label\n1,2\n")
    for action in (Examples(path).read, lambda: Examples(path).append(FOUR)):
        with pytest.raises(DataError, match="to start with"):
            action()


@pytest.mark.parametrize(
    "bad", [{"outcome": "lost"}, {"id": -1}, {"top_k": math.inf}, {"attack": "a\nb"}, {"kendall": -1.2}]
)
def test_rows_refuse_what_cannot_be(bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {"attack": "a", "id": 1, "label": 0, "prediction": 0, "outcome": "attacked"}
    with pytest.raises(InputError, match="expected"):
        ExampleRow(**(good | bad))


def test_nan_means_not_available() -> None:
    assert row(1, math.nan).top_k is None
    assert row(1, 1.0 + 1e-7).top_k == 1.0


# ---- other files ----


def test_atomic_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_text_atomic(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device; free some space"):
        write_json_atomic(path, {"new": 1})
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', '{"a":' * 100_000, "\udcff"])
def test_broken_json_is_a_data_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"summary\.json"):
        read_json(path)


def test_log_drops_the_torn_line_and_keeps_the_later_of_two(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for step, total in ((0, 1.0), (10, math.nan), (0, 3.0)):
        append_log(path, {"step": step, "parts": {"total": total}})
    with path.open("a") as file:
        file.write('{"step": 20, "pa')
    log = read_log(path)
    assert [entry["step"] for entry in log.entries] == [0, 10]
    assert [entry["parts"]["total"] for entry in log.entries] == [3.0, None]
    assert "cut off" in log.notes[0]
    path.write_text('{"step": "x"}\n')
    with pytest.raises(DataError, match="line 1"):
        read_log(path)


def make_panels(**changes: Any) -> Panels:
    image = np.zeros((2, 1, 4, 5), np.uint8)
    known: dict[str, Any] = {
        "attack": "ifia-topk", "ids": np.arange(2), "labels": np.arange(2), "predictions": np.arange(2),
        "clean": image, "perturbed": image.astype(np.float32) + 0.5, "clean_map": np.ones((2, 4, 5)),
        "perturbed_map": np.ones((2, 4, 5)),
    }  # fmt: skip
    return Panels(**(known | changes))


def test_panels_come_back(tmp_path: Path) -> None:
    write_panels(tmp_path / "panels.npz", make_panels(names=("<b>", "b.png")))
    found = read_panels(tmp_path / "panels.npz")
    assert found.names == ("<b>", "b.png")
    assert found.perturbed.dtype == np.float16
    assert found.attack == "ifia-topk"


@pytest.mark.parametrize(
    "changes",
    [{"ids": np.arange(3)}, {"clean": np.zeros((2, 2, 4, 5))}, {"names": ("a",)}, {"labels": np.array(["a", "b"])}],
)
def test_panels_refuse_other_shapes(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        make_panels(**changes)


def test_panels_never_unpickle_and_check_sizes_first(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    path = tmp_path / "panels.npz"
    np.savez(path, attack=np.array([Bomb()], dtype=object))
    with pytest.raises(DataError, match=r"panels\.npz"):
        read_panels(path)
    assert not (tmp_path / "executed").exists()
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(DataError, match="delete it"):
        read_panels(path)
    write_panels(path, make_panels())
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        assert "panels.npz" in (refusal(lambda: read_panels(path)) or "panels.npz")


def test_header_that_promises_gigabytes_is_refused(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "panels.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2000000000,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataError, match="promises 16000000"):
        read_panels(path)


@given(
    content=st.binary(max_size=300), name=st.sampled_from(["examples.csv", "log.jsonl", "summary.json", "panels.npz"])
)
def test_garbage_is_never_more_than_a_holdfast_error(
    content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("garbage")
    (folder / name).write_bytes(content)
    run = read_run(folder)
    for part in ("examples", "log", "summary", "panels", "provenance", "config"):
        assert name in (refusal(lambda part=part: getattr(run, part)) or name)


# ---- run and provenance ----


def test_run_reads_lazily_and_misses_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a run directory"):
        read_run(tmp_path)
    (tmp_path / "config.toml").write_text("steps = 1\n")
    run = read_run(tmp_path)
    assert (run.summary, run.panels, run.examples.rows, run.log.entries) == (None, None, (), ())
    assert run.config == "steps = 1\n"
    assert run.provenance == {}
    (tmp_path / "summary.json").write_text("{")
    broken = read_run(tmp_path)
    assert broken.config
    with pytest.raises(DataError, match=r"summary\.json"):
        _ = broken.summary


def test_find_runs_looks_one_level_down(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_text_atomic(tmp_path / "runs" / name / "config.toml", "")
    (tmp_path / "empty").mkdir()
    found, others = find_runs([tmp_path / "runs", tmp_path / "empty", tmp_path / "runs" / "a"])
    assert [run.name for run in found] == ["a", "b"]
    assert others == ("empty",)
    with pytest.raises(DataError, match="expected run directories"):
        find_runs([tmp_path / "empty"])


def test_provenance_names_versions_but_no_folder() -> None:
    found = finish(collect_provenance(seeds=[3], command=["holdfast", "train", "--out=/home/me/runs/a", "/x/y/z.toml"]))
    assert found["command"] == "holdfast train --out=a z.toml"
    assert found["seeds"] == [3]
    assert found["numpy"] == np.__version__
    assert found["finished"] >= found["started"]
    keys = "holdfast commit dirty python torch numpy platform cpu cores threads device started finished command seeds"
    assert set(found) == set(keys.split())
    assert str(Path.home()) not in json.dumps(found)


@pytest.mark.parametrize(
    ("word", "kept"),
    [("~/runs/a", "a"), ("C:\\runs\\a", "a"), ("runs/a", "runs/a"), ("--lr=0.1", "--lr=0.1"), ("/a/b/", "b")],
)
def test_folders_are_cut(word: str, kept: str) -> None:
    assert without_folders(word) == kept


def test_results_and_report_never_load_torch_or_drawing() -> None:
    code = "import sys, holdfast.results, holdfast.report, holdfast.commands.report\n"
    code += "print([m for m in ('torch', 'matplotlib', 'jinja2', 'PIL', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_metrics_are_columns() -> None:
    assert set(METRICS) <= set(COLUMNS)
