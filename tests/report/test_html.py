"""The page without a browser: escaping, policy, size, and what it must contain."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import make_panels, make_rows, write_run
from tests.runs.material import example_row

from holdfast.report import RunView, view_runs, write_report
from holdfast.report.html import report_html
from holdfast.report.payload import MISSING, pack_pictures, pack_rows, to_script_json
from holdfast.report.pictures import pictures
from holdfast.runs import Examples, find_runs, read_run, write_panels

PLANTED = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inline.append((*self.tags[-1], data))
            self.tags.append(("", {}))


@pytest.fixture(scope="module")
def page(views: tuple[RunView, ...]) -> str:
    return report_html(views)


def embedded(page: str) -> dict[str, object]:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert text
    found: dict[str, object] = json.loads(text[1])
    return found


def test_nothing_points_outside(page: str) -> None:
    assert "http:" not in page
    assert "https:" not in page
    assert "//" not in re.sub(r"//.*$|data:[^\"]*|[A-Za-z0-9+/=]{40,}", "", page, flags=re.MULTILINE)
    for tag, attributes in Tags(page).tags:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "action"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:")), (tag, address)
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)


def test_policy_allows_exactly_our_style_and_script(page: str) -> None:
    tags = Tags(page)
    policy = next(a["content"] for tag, a in tags.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    executed = [text for tag, attributes, text in tags.inline if attributes.get("type") != "application/json"]
    assert len(executed) == 2
    for text in executed:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_sections_are_there(page: str) -> None:
    for part in ("results", "spread", "pictures", "examples", "training", "exclusions", "provenance"):
        assert f'<section id="{part}"' in page
    assert "paper 81.00 %" in page
    assert "natural keeps" in page
    assert "erar minus natural under ifia-topk, mean paired difference: top-k +" in page
    assert "holdfast train mnist/erar" in page
    assert "prefers-color-scheme: dark" in page


def test_planted_scripts_are_text(tmp_path: Path) -> None:
    panels = make_panels(0.5, 0, count=2, attack=PLANTED.replace("\n", ""))
    named = type(panels)(**{**vars(panels), "names": (PLANTED, "b")})
    folder = tmp_path / "<script>alert(3)<"
    run = write_run(
        folder, method=PLANTED, dataset=PLANTED, preset=PLANTED, n=20, limit=PLANTED, class_names=(PLANTED,) * 10
    )
    write_panels(run / "panels.npz", named)
    (run / "config.toml").write_text(PLANTED)
    Examples(run / "examples.csv").append(
        [example_row(attack=PLANTED, id=0, label=0, prediction=0, outcome="attacked", top_k=0.1, winner=PLANTED)]
    )
    found = report_html(view_runs([read_run(run)]), title=PLANTED)
    scripts = [tag for tag, _ in Tags(found).tags if tag == "script"]
    assert len(scripts) == 2
    assert "<script>alert" not in found
    assert "<img src=x" not in found
    assert not any("onerror" in attributes for _, attributes in Tags(found).tags)
    assert PLANTED in json.dumps(embedded(found), ensure_ascii=False).replace('\\"', '"')


def test_rows_are_packed_without_loss_of_meaning(views: tuple[RunView, ...]) -> None:
    packed = pack_rows(views)
    rows = [row for view in views for row in view.run.examples.rows]
    assert packed["n"] == len(rows)
    steps = np.frombuffer(base64.b64decode(packed["columns"]["kendall"]), "<u2")
    for row, step in zip(rows, steps, strict=True):
        if row.score("kendall") is None:
            assert step == MISSING
        else:
            assert step / (MISSING - 1) * 2 - 1 == pytest.approx(row.score("kendall"), abs=2e-5)
    ids = np.frombuffer(base64.b64decode(packed["columns"]["id"]), "<f8")
    assert ids.tolist() == [row.id for row in rows]


def test_script_json_cannot_end_its_tag() -> None:
    text = to_script_json({"a": "</script><!-- \u2028 &"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- \u2028 &"}


def test_maps_of_one_example_share_their_scale(views: tuple[RunView, ...]) -> None:
    first = pictures(views)[0]
    assert len(first.shots) == 5
    maps = [view.run.panels.clean_map[0] for view in views if view.run.panels is not None]
    for shot, saliency in zip(first.shots, maps, strict=True):
        expected = np.clip(saliency.astype(float) / first.scale, 0, 1) * 255
        assert np.abs(shot.clean_map - expected).max() <= 0.51


def test_large_pictures_are_reduced_and_many_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    small = make_panels(0.5, 0, count=3)
    big = {"clean": rng.integers(0, 255, (3, 3, 300, 520), np.uint8), "perturbed": rng.random((3, 3, 300, 520))}
    maps = dict.fromkeys(("clean_map", "perturbed_map"), rng.random((3, 300, 520)))
    run = write_run(tmp_path / "run", n=20, log=False, panels=type(small)(**{**vars(small), **big, **maps}))
    views = view_runs([read_run(run)])
    found = pictures(views)
    assert found[0].clean.shape == (100, 173, 3)
    monkeypatch.setattr("holdfast.report.payload.PICTURE_BYTES", 1)
    packed, left_out = pack_pictures(found)
    assert (len(packed), left_out) == (1, 2)
    assert "2 more examples are in the run directories" in report_html(views)


def test_runs_that_are_only_trained_or_only_summarised(tmp_path: Path) -> None:
    trained = write_run(tmp_path / "trained", method="madry", n=20)
    for name in ("examples.csv", "summary.json"):
        (trained / name).unlink()
    summarised = write_run(tmp_path / "summarised", n=20, log=False)
    (summarised / "examples.csv").unlink()
    page = report_html(view_runs([read_run(trained), read_run(summarised)]))
    assert "not evaluated yet" in page
    assert '<section id="examples"' not in page
    assert "erar keeps" in page


def test_a_hundred_thousand_rows_stay_small(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", n=30, log=False)
    rows = make_rows(0.5, 50_000, 0)
    (run / "examples.csv").unlink()
    Examples(run / "examples.csv").append(rows)
    views = view_runs(find_runs([run])[0])
    [path] = write_report(views, tmp_path / "report.html")
    assert path.stat().st_size < 8_000_000
    assert embedded(path.read_text())["rows"]["n"] == 100_000  # type: ignore[index]
