"""What the site is made of: public names, docstrings, documents of the repository, and the leaderboard."""

import doctest
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from tests.report.runs import write_run
from tests.site.parts import PARTS, ROOT, part

import holdfast
from holdfast.cli import COMMANDS

documents, docstrings, leaderboard, reference = map(part, ("documents", "docstrings", "leaderboard", "reference"))


# ---- the reference ----


def test_every_public_name_has_an_entry_with_a_docstring() -> None:
    names = {name.path: name for name in reference.names()}
    rooms = [name for name in holdfast.__all__ if isinstance(getattr(holdfast, name), ModuleType)]
    assert set(holdfast.__all__) - set(rooms) <= set(names)
    for room in (getattr(holdfast, room).__name__.removeprefix("holdfast.") for room in rooms):
        public = getattr(holdfast, room).__all__
        assert [name for name in public if name not in names and f"{room}.{name}" not in names] == []
    pages = "\n".join(reference.pages().values())
    for name in names.values():
        assert re.search(rf"^\.\. (auto{name.kind}|py:data):: {re.escape(name.full)}$", pages, re.MULTILINE), name.path
        assert name.summary, f"{name.path} has no docstring"


def test_every_command_is_described() -> None:
    page = part("command_page").page()
    for name in COMMANDS:
        assert f"\n## holdfast {name}\n" in page
    assert "| `--eps` | `8/255` |" in page
    assert "| `NAME` |  | Name of the dataset" in page
    assert "| `--slurm.gpus` | `0` | Number of GPUs per run." in page
    assert page.count("| `--crop` |  | Cut a square of this side") == 2  # audit and harden


@pytest.mark.parametrize("module", ["docstrings"])
def test_examples_of_the_parts(module: str) -> None:
    done = doctest.testmod(part(module))
    assert done.attempted
    assert not done.failed


def test_a_docstring_becomes_text_formulas_lists_and_examples() -> None:
    source = """|IG| of `x_adv`, S(A * dA).

        y = a * b_1

    - "one": first *item*
      goes on;
    - "two".

    >>> 1 + 1
    2"""
    lines = [line[4:] if line.startswith("    ") else line for line in source.splitlines()]
    assert docstrings.converted(lines) == [
        r"\|IG\| of :code:`x_adv`, S(A \* dA).",
        "",
        ".. code-block:: text",
        "",
        "       y = a * b_1",
        "",
        r'- "one"\: first \*item\* goes on;',
        '- "two".',
        "",
        ".. code-block:: pycon",
        "",
        "   >>> 1 + 1",
        "   2",
        "",
    ]


# ---- documents of the repository ----


def test_links_of_a_document_lead_to_pages_of_the_site() -> None:
    known = documents.documents()
    text = "[x](recipes.md#a) [docs/recipes.md](../docs/recipes.md) [code](rooms.py) [out](https://a.org) [b](#b)"
    made, pictures = documents.relinked(text, ROOT / "docs" / "architecture.md", "project/architecture", known)
    assert made == "[x](recipes.md#a) [recipes](recipes.md) `code` [out](https://a.org) [b](#b)"
    assert not pictures
    made, pictures = documents.relinked("![p](rooms.svg)", ROOT / "docs" / "a.md", "project/a", known)
    assert made == "![p](rooms.svg)"
    assert pictures == {"project/rooms.svg": (ROOT / "docs" / "rooms.svg").read_bytes()}
    made, _ = documents.relinked("[r](report.html)", ROOT / "results" / "README.md", "project/results", known)
    assert made == '<a href="../report.html">r</a>'


def test_every_document_and_card_is_on_the_site() -> None:
    pages = documents.pages()
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {f"project/{name}.md" for name in {*written, "contributing", "security", "changelog", "results"}} <= set(
        pages
    )
    assert {f"zoo/{network.name.replace('/', '-')}.md" for network in holdfast.zoo.list()} <= set(pages)
    listed = re.findall(r"^(?:.* <)?([\w-]+)>?$", pages["project/index.md"].decode(), re.MULTILINE)
    project = {Path(name).stem for name in pages if name.startswith("project/") and name.endswith(".md")}
    assert project <= {*listed, "index", "results"}


def test_the_zoo_page_has_only_figures_under_the_strongest_attack() -> None:
    entry = replace(holdfast.zoo.list()[0], top_k=0.125, kendall=0.25, packaged=True)
    rows = [documents._zoo_row(replace(entry, attack=attack)) for attack in ("strongest", "ifia-topk")]
    assert rows[0].endswith("| 12.5 % | 0.250 | in the package |")
    assert rows[1].endswith("| - | - | in the package |")
    page = documents.pages()["zoo/index.md"].decode()
    assert "needs `HOLDFAST_ZOO`" in page
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + len(holdfast.zoo.list())


# ---- the leaderboard ----


class Cells(HTMLParser):
    """The rows of a table: for each cell its `data-value`."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append(dict(attrs)["data-value"] or "")


def test_the_leaderboard_has_the_figures_of_the_summaries() -> None:
    views = leaderboard.measured_runs()
    cells = Cells()
    cells.feed(leaderboard.table_html(views))
    rows = [row for row in cells.rows if row]
    assert len(rows) == len(views) >= 19
    titles = [(column.group, column.title) for column in leaderboard.columns(views)]
    for view, row in zip(views, rows, strict=True):
        summary = json.loads((Path(view.run.folder) / "summary.json").read_text())
        found = dict(zip(titles, row, strict=True))
        assert found["Run", "Dataset"] == summary["dataset"]
        assert found["Run", "Network"] == summary["network"]
        assert float(found["Accuracy", "Natural"]) == summary["natural_accuracy"]
        apgd = summary.get("apgd_accuracy")
        assert found["Accuracy", "APGD"] == ("" if apgd is None else repr(apgd))
        for attack, group in leaderboard.ATTACKS.items():
            value, name = found.get((group, "Kendall"), ""), leaderboard.measured_as(view, attack)
            assert (name in summary["attacks"]) == bool(value)
            assert not value or float(value) == summary["attacks"][name]["kendall"]["median"]


def test_the_leaderboard_has_one_noise_that_of_the_deciding_map(tmp_path: Path) -> None:
    older = ("ifia-topk", "strongest", "random")
    for name, attacks in (("older", older), ("newer", (*older, "random-centred"))):
        write_run(tmp_path / "digits" / name, method=name, n=8, log=False, attacks=attacks)
    views = {view.method: view for view in leaderboard.measured_runs(tmp_path)}
    assert leaderboard.measured_as(views["older"], "random") == "random"
    assert leaderboard.measured_as(views["newer"], "random") == "random-centred"
    columns = [column for column in leaderboard.columns(list(views.values())) if column.group == "Random noise"]
    assert [column.title for column in columns] == ["Top-k", "Kendall"]
    noise = views["newer"].attacks["random-centred"].metrics
    assert columns[1].cell(views["newer"]).value == noise["kendall"].median


def test_the_parts_are_small() -> None:
    assert all(len(path.read_text().splitlines()) < 200 for path in PARTS.glob("*.py"))
