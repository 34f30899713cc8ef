"""What the documents show runs, and what they point to exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_examples_run(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_readme_example_has_ten_lines() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_files_exist(page: Path) -> None:
    for name in re.findall(r"`((?:tests|docs|examples|benchmarks)/[\w/.-]+\.\w+)", page.read_text()):
        assert (ROOT / name).exists(), name
    for name in re.findall(
        r"`((?:attribution|losses|models|attacks|data|recipes|evaluation|results)/[\w/.-]+\.py)", page.read_text()
    ):
        assert (ROOT / "src/holdfast" / name).exists(), name


def test_no_machine_paths() -> None:
    for page in PAGES:
        for owner in ("home", "root"):
            assert f"/{owner}/" not in page.read_text()


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(script: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(picture)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 5_000


def test_every_promise_names_a_test_that_exists() -> None:
    """`tests/x.py::test_y`, and `::test_z` behind it, which is of the same file."""
    text, file = (ROOT / "docs" / "reliability.md").read_text(), ""
    named = re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", text)
    assert len(named) > 40
    for path, test in named:
        file = path or file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
