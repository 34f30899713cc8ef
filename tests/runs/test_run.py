"""The run directory as an object, and where its numbers come from."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import DataError
from holdfast.runs import collect_provenance, find_runs, finish, read_run, write_text_atomic
from holdfast.runs.provenance import without_folders


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
    code = "import sys, holdfast.runs, holdfast.report, holdfast.commands.report\n"
    code += "print([m for m in ('torch', 'matplotlib', 'jinja2', 'PIL', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
