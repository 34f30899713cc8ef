"""The examples in the documentation run, and every file, test and symbol it names exists.

Pointers have these forms; paths are relative to the repository root or to `src/holdfast`:

    path.py, path.py::name, path.py::Class.method
    `path.py` `Symbol`, `Other`      symbols of that file; also `path.py`, class|function|method `name`
    `SYMBOL` in `path.py`
    ::name or …::name                of the file named last in the same table cell, or in the same paragraph
    hf.name, holdfast.module.name    in backticks: a public name, resolved by importing it
    [text](path)                     a link relative to the page
"""

import ast
import pydoc
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "holdfast"
SITE = [path for folder in (".", "tutorials", "concepts") for path in ROOT.glob(f"docs/site/{folder}/*.md")]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/**/README.md"), *SITE])

IDENTIFIER = r"(?!\w+\.py`)[A-Za-z_]\w*(?:\.\w+)*"
POINTER = re.compile(r"([\w./-]*\w\.py\b)?(?:…?::(\w+(?:\.\w+)*))?")
FILE_THEN_SYMBOLS = re.compile(
    rf"`([\w./-]+\.py)`(?:, (?:class|function|method))?( `{IDENTIFIER}`(?:(?:,| and) `{IDENTIFIER}`)*)"
)
SYMBOL_IN_FILE = re.compile(rf"`({IDENTIFIER})` in `([\w./-]+\.py)`")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


@every_page
def test_python_examples_run(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_readme_example_has_ten_lines() -> None:
    section = (ROOT / "README.md").read_text().partition("## Attack in ten lines")[2]
    code = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


@every_page
def test_pointers_to_code_and_tests_exist(page: Path) -> None:
    assert problems(page.read_text()) == []


@every_page
def test_named_files_and_folders_exist(page: Path) -> None:
    """Paths in backticks whose first folder exists here, except `runs/`, where users keep their own runs."""
    named = re.findall(r"`((?!runs/)[\w.-]+/[\w./-]*)`", page.read_text())
    ours = [name for name in named if exists(name.partition("/")[0])]
    assert [name for name in ours if not exists(name)] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in SITE], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_links_lead_somewhere(page: Path) -> None:
    """Pages of the site also link to generated pages; `make docs` checks them."""
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@every_page
def test_public_names_exist(page: Path) -> None:
    named = re.findall(r"`(?:hf|holdfast)((?:\.\w+)+)", page.read_text())
    assert [name for name in named if pydoc.locate(f"holdfast{name}") is None] == []


def test_no_machine_paths() -> None:
    for page in PAGES:
        for owner in ("home", "root"):
            assert f"/{owner}/" not in page.read_text()


NETWORKS = ("resnet20.py",)
"""Examples that define a network for the command line."""


@pytest.mark.parametrize(
    "script",
    sorted(path for path in (ROOT / "examples").glob("*.py") if path.name not in NETWORKS),
    ids=lambda p: p.name,
)
def test_examples_run(script: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(picture)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 5_000


@pytest.mark.parametrize("name", NETWORKS)
def test_example_networks_run(name: str) -> None:
    pytest.importorskip("pytorchcv", reason="no pytorchcv here: `pip install --no-deps pytorchcv`")
    build = runpy.run_path(str(ROOT / "examples" / name))["build"]
    assert build(num_classes=43).eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 43)


@pytest.mark.parametrize(("name", "at_least"), [("equations.md", 100), ("reliability.md", 50)])
def test_these_pages_name_many_tests_and_symbols(name: str, at_least: int) -> None:
    """A guard on the checks above: a change of notation must not leave them with nothing to check."""
    assert len(list(pointers((ROOT / "docs" / name).read_text()))) > at_least


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`metrics/top_k.py::top_k_mask` and `tests/test_docs.py::problems`", []),
        ("`metrics/gone.py`", ["no file metrics/gone.py"]),
        ("run benchmarks/gone.py now", ["no file benchmarks/gone.py"]),
        ("`metrics/top_k.py::gone`", ["no gone in metrics/top_k.py"]),
        ("`attacks/balls.py::Linf.project`", []),
        ("`attacks/balls.py::Linf.gone`", ["no Linf.gone in attacks/balls.py"]),
        ("`metrics/top_k.py` `top_k_mask`, `gone`", ["no gone in metrics/top_k.py"]),
        ("`metrics/top_k.py` `top_k_mask` and `gone`, `metrics/center.py`", ["no gone in metrics/top_k.py"]),
        ("`metrics/top_k.py`, function `gone`", ["no gone in metrics/top_k.py"]),
        ("`GONE` in `metrics/registry.py`", ["no GONE in metrics/registry.py"]),
        ("| `metrics/top_k.py::top_k_mask`, `::top_k_intersection` | `…::gone` |", ["no file before ::gone"]),
        ("| `metrics/top_k.py`, `…::gone` |", ["no gone in metrics/top_k.py"]),
        ("`metrics/top_k.py`\n\n`::top_k_mask`", ["no file before ::top_k_mask"]),
    ],
)
def test_wrong_pointers_are_found(text: str, found: list[str]) -> None:
    assert problems(text) == found


def problems(text: str) -> list[str]:
    """One sentence per pointer that leads nowhere."""
    wrong = []
    for path, name in pointers(text):
        if not path:
            wrong.append(f"no file before ::{name}")
        elif (file := find(path)) is None:
            wrong.append(f"no file {path}")
        elif name and name not in symbols(file):
            wrong.append(f"no {name} in {path}")
    return wrong


def pointers(text: str) -> Iterator[tuple[str, str]]:
    """(path, name) of every pointer; the path is empty where `::name` follows no file in its cell."""
    for cell in cells(text):
        file = ""
        for path, name in POINTER.findall(cell):
            if path or name:
                file = path or file
                yield file, name
        for path, names in FILE_THEN_SYMBOLS.findall(cell):
            yield from ((path, name) for name in re.findall(r"`(.+?)`", names))
        for name, path in SYMBOL_IN_FILE.findall(cell):
            yield path, name


def cells(text: str) -> Iterator[str]:
    """The cells of tables, and the paragraphs between them, each on one line."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        rows = [line for line in lines if line.lstrip().startswith("|")]
        yield " ".join(line.strip() for line in lines if line not in rows)
        for row in rows:
            yield from re.split(r"(?<!\\)\|", row)


def exists(path: str) -> bool:
    """Whether this is a file or folder of the repository or of the package."""
    return any((base / path).exists() for base in (ROOT, PACKAGE))


def find(path: str) -> Path | None:
    """The file that a pointer names."""
    return next((base / path for base in (ROOT, PACKAGE) if (base / path).is_file()), None)


@cache
def symbols(file: Path) -> frozenset[str]:
    """What a Python file defines: `name` at the top, `Class.name` in classes."""
    return frozenset(_defined(ast.parse(file.read_text()).body))


def _defined(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
