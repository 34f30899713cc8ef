"""Every code cell of the tutorials runs, without warnings, as a plain script in an empty folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"
PAGES = [
    path for path in sorted([SITE / "start.md", *(SITE / "tutorials").iterdir()]) if path.suffix in (".md", ".ipynb")
]


def code_of(path: Path) -> str:
    """The code cells of a page or notebook, one after the other, without the options of a cell."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return "\n".join(re.sub(r"^:tags:.*\n", "", cell) for cell in cells)


def test_there_is_a_tutorial_for_each_task() -> None:
    names = {path.stem for path in PAGES}
    assert names == {"start", "audit", "harden", "loop", "loss", "map", "report", "reproduce", "cluster"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_code_runs(page: Path, tmp_path: Path) -> None:
    code = code_of(page)
    assert "holdfast" in code
    (tmp_path / "page.py").write_text(code)
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_notebook_is_committed_without_outputs() -> None:
    cells = json.loads((SITE / "tutorials" / "audit.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
