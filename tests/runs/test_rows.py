"""The rows of an evaluation on disk: bit-equal, torn, broken, foreign."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.material import FOUR, example_row, row

from holdfast.errors import DataError, InputError
from holdfast.runs import OUTCOMES, ExampleRow, Examples
from holdfast.storage.lines import repair

numbers = st.one_of(st.none(), st.floats(-1, 1))
rows_strategy = st.builds(
    example_row,
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
    steps=st.one_of(st.none(), st.integers(0, 1000)),
    random_steps=st.one_of(st.none(), st.integers(0, 1000)),
    notes=st.sampled_from(["", "a note, with a comma"]),
)

BEFORE = (
    "attack,id,label,prediction,pgd_correct,outcome,top_k,kendall,spearman,cosine,center_shift,winner,completeness_gap"
)
"""The header of tables from before `steps`, `random_steps` and `notes`."""


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
    path.write_text(BEFORE + "\n" + line + "\n")
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
    "bad", [{"outcome": "lost"}, {"id": -1}, {"top_k": math.inf}, {"attack": "a\nb"}, {"kendall": -1.2}, {"steps": -1}]
)
def test_rows_refuse_what_cannot_be(bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {"attack": "a", "id": 1, "label": 0, "prediction": 0, "outcome": "attacked"}
    with pytest.raises(InputError, match="expected"):
        example_row(**(good | bad))


def test_nan_means_not_available() -> None:
    assert row(1, math.nan).score("top_k") is None
    assert row(1, 1.0 + 1e-7).score("top_k") == 1.0
