"""Vote, figures and the command."""

import csv
import io
from pathlib import Path

import pytest
from PIL import Image
from tests.report.runs import make_panels, write_run

from holdfast.cli import main
from holdfast.commands.report import report
from holdfast.errors import DataError, InputError
from holdfast.report import RunView, count_votes, view_runs, write_figures, write_tables, write_vote
from holdfast.report.figures import draw_figures, safe_name
from holdfast.report.panel_figures import chosen
from holdfast.report.vote import vote_pages
from holdfast.runs import read_run


def test_vote_is_blind_seeded_and_complete(views: tuple[RunView, ...]) -> None:
    page, key = vote_pages(views, seed=3)
    for view in views:
        assert view.label not in page.replace("natural ", "").replace("naturalWidth", "").replace("naturalHeight", "")
    rows = list(csv.DictReader(io.StringIO(key)))
    assert len(rows) == 5 * 8
    assert len({row["key"] for row in rows}) == len(rows)
    assert all(row["key"] in page for row in rows)
    assert vote_pages(views, seed=3)[1] == key
    orders = {tuple(r["method"] for r in rows if r["example"] == str(i)) for i in range(8)}
    assert len(orders) > 1
    assert vote_pages(views, seed=4)[1] != key


def test_votes_are_counted_with_interval(views: tuple[RunView, ...], tmp_path: Path) -> None:
    _, key = write_vote(views, tmp_path / "vote.html")
    rows = list(csv.DictReader(io.StringIO(key.read_text())))
    chosen = [row["key"] for row in rows if row["method"] == "erar"][:3]
    lines = [
        "dataset,example,choice,key,shown",
        *(f"mnist,{i},A,{k}," for i, k in enumerate(chosen)),
        "mnist,9,undecided,,",
    ]
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    shares = count_votes([tmp_path / "votes.csv"], key)
    assert shares["erar"].median == 0.75
    assert shares["erar"].n == 4
    assert shares["natural"].median == 0.0
    (tmp_path / "votes.csv").write_text("dataset,example,choice,key\nmnist,0,A,zzz\n")
    with pytest.raises(DataError, match="expected keys of vote-key"):
        count_votes([tmp_path / "votes.csv"], key)


def test_vote_needs_two_runs_with_the_same_pictures(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", n=20, log=False, panels=make_panels(0.5, 0, count=2))
    with pytest.raises(InputError, match="same examples in two runs"):
        vote_pages(view_runs([read_run(run)]))


def test_figures_are_written_as_png_and_pdf(demo: list[Path], tmp_path: Path) -> None:
    views = view_runs([read_run(folder) for folder in demo[:2]])
    names = [name for name, _ in draw_figures(views)]
    assert names[:3] == ["boxes-mnist", "trade-off-mnist", "losses-mnist"]
    assert names[3] == f"panels-mnist-{chosen(views)[0].id}"
    one = view_runs([read_run(write_run(tmp_path / "x", method="a $x_1$ <b>", dataset="../../d", n=20))])
    paths = write_figures(one, tmp_path / "figures")
    assert [path.name for path in paths] == [
        f"{kind}-..-..-d.{end}" for kind in ("boxes", "losses") for end in ("png", "pdf")
    ]
    with Image.open(paths[0]) as image:
        assert image.width > 300
    assert paths[1].read_bytes().startswith(b"%PDF")
    assert safe_name("..") == "unnamed"


def test_tables_are_written_in_three_formats(views: tuple[RunView, ...], tmp_path: Path) -> None:
    paths = write_tables(views, tmp_path)
    assert {path.name for path in paths} == {
        f"{name}.{end}"
        for name in (
            *(f"{kind}-mnist" for kind in ("results", "means", "paired", "costs", "quality")),
            *("natural-maps", "conventions", "exclusions"),
        )
        for end in ("md", "tex", "csv")
    }


def test_command_writes_and_says_what(demo: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stray").mkdir()
    report((demo[0].parent, tmp_path / "stray"), out=tmp_path / "r.html", tables=tmp_path / "t")
    said = capsys.readouterr().out
    assert "Results on mnist" in said
    assert "stray: it contains no run" in said
    assert "r.html" in said
    assert (tmp_path / "r.html").stat().st_size < 1_000_000
    report(tuple(demo), out=tmp_path / "v.html", vote=True)
    assert (tmp_path / "v-key.csv").exists()
    with pytest.raises(DataError, match="expected run directories"):
        report((tmp_path / "stray",))


def test_command_parses_with_tyro(demo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.COMMANDS", {"report": ("holdfast.commands.report:report", "report")})
    words = ["report", str(demo[0]), str(demo[1]), "--out", str(tmp_path / "page.html"), "--title", "T & C"]
    assert main(words) == 0
    assert "<title>T &amp; C</title>" in (tmp_path / "page.html").read_text()
    assert main(["report", str(tmp_path)]) == 2
