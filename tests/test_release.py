"""What a release needs: one version, all data files in the package, a citation, and workflows with few rights."""

import ast
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import holdfast

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version() -> None:
    version = PROJECT["project"]["version"]
    assert holdfast.__version__ == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version.partition(".dev")[0]


def test_a_release_has_one_date() -> None:
    version = PROJECT["project"]["version"]
    heading = re.search(rf"^## {re.escape(version)} \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if ".dev" not in version:
        assert heading is not None
        assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text())["date-released"]) == heading[1]


def test_the_citation_has_what_the_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["project"]["license"]


def test_every_data_file_is_in_the_package() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["holdfast"]
    source = ROOT / "src" / "holdfast"
    files = [path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()]
    data = [name for name in files if not name.endswith((".py", ".pyc"))]
    assert len(data) > 30
    # fnmatch's star also matches a slash, as ** does
    assert [name for name in data if not any(fnmatch(name, pattern.replace("**/*", "*")) for pattern in patterns)] == []


def test_private_names_of_torch_have_a_fallback_or_an_upper_bound() -> None:
    """Without them engine/parallel.py runs without threads, bench/scaling.py takes a fixed ratio of FLOPs,
    engine/layout.py copies weights each time, and engine/microbatch.py does not slice."""
    private = re.compile(
        r"\btorch(?:\.\w+)*\._[A-Za-z]|from torch[\w.]* import (?:\([^)]*|.*)\b_[A-Za-z]|\bnn(?:\.\w+)*\._[A-Za-z]"
        r"|\bgetattr\([^,]+, \"_[A-Za-z]"
    )
    files = {path.name for path in (ROOT / "src").rglob("*.py") if private.search(path.read_text())}
    assert files == {"layout.py", "microbatch.py", "parallel.py", "scaling.py"}
    (bound,) = [text for text in PROJECT["project"]["dependencies"] if text.startswith("torch")]
    assert re.search(r"<\d", bound)


def test_private_attributes_of_tensors_are_read_with_a_default() -> None:
    """`tensor._name` raises where PyTorch drops the name; `getattr(tensor, "_name", default)` does not."""
    of_others = {"_asdict", "_fields", "_processes", "_search"}  # named tuples, process pools, holdfast's own attacks
    caught = {"_DropoutNd", "_NormBase", "_SpectralNorm"}  # engine/parallel.py does without them
    read = {
        node.attr
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and re.match(r"_[A-Za-z]", node.attr)
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert read == of_others | caught


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_few_rights_and_a_time_limit(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        for step in job["steps"]:
            # what comes from outside reaches a script only through its environment
            assert "${{" not in step.get("run", ""), name
            assert re.fullmatch(r"[\w-]+/[\w-]+@[\w./]+", step.get("uses", "a/b@v1"))
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name  # no later step pushes


def test_the_package_is_published_without_a_stored_token() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert set(jobs["pypi"]["needs"]) == {"build", "github"}
    assert "secrets." not in text
