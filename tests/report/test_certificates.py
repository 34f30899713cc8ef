"""Certificates on the page, in figures and in sentences."""

import re
from pathlib import Path

import pytest
from tests.report.runs import write_run

from holdfast.errors import DataError
from holdfast.report import view_runs, write_figures, write_report
from holdfast.report.certificates import describe, overlap_curves, page_certificates
from holdfast.runs import read_run
from holdfast.storage.json_files import write_json_atomic

CONTENT = {
    "n": 16,
    "map": "Gradient",
    "sigma": 0.2,
    "draws": 1000,
    "alpha": 0.001,
    "k": 78,
    "overlap": {"radii": [0.0, 0.1, 0.2], "median": [0.9, 0.5, 0.0]},
    "attack": {"radii": [0.0, 0.1, 0.2], "median": [1.0, 0.95, 0.8], "contradictions": 0},
    "pixels": {"radius": 0.1, "median": 0.4, "top_median": 12.5, "attacked_median": 0.97},
    "stability": {"median": 0.8, "samples": 150, "error": 0.1, "patches": 49, "shown": 12, "radius": 12},
    "gradient": {"eps": 1 / 255, "median": 0.25, "attacked_median": 0.75},
    "notes": ["3 of 16,000 noisy copies have a constant map"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = write_run(tmp_path / "run", n=12)
    write_json_atomic(run / "certificates.json", CONTENT)
    return run


def test_sentences() -> None:
    said = "\n".join(describe(CONTENT))
    for part in (
        "The smoothed map is certified, not the plain one, for 16 images.",
        "1,000 noisy copies (standard deviation 0.2)",
        "Within radius 0.1 (Euclidean, pixels in [0, 1]) the median image keeps at least 50% of its top 78 pixels; "
        "under attack it keeps 95%.",
        "Within radius 0.2 the median image keeps at least 0%",
        "Fresh noise alone, without a perturbation, leaves 100%.",
        "Within radius 0.1, 40% of the pixels of the median image are certified: 12.5 stay among the top 78",
        "under attack 97% keep their side",
        "wrong for an image with probability at most 0.001",
        "keeps its prediction in 80% (± 10%)",
        "changes of at most 0.00392 per pixel: the median image keeps at least 25%",
        "note: 3 of 16,000",
    ):
        assert part in said
    assert "Warning" not in said


def test_a_refuted_certificate_is_a_warning() -> None:
    attack = {**CONTENT["attack"], "contradictions": 2}
    assert any("refutes 2 certificates" in text for text in describe({**CONTENT, "attack": attack}))


def test_without_an_attack() -> None:
    said = "\n".join(describe({**CONTENT, "attack": None, "gradient": None}))
    assert "Within radius 0.1 (Euclidean, pixels in [0, 1]) the median image keeps at least 50%" in said
    assert "Plain gradient" not in said


def test_the_page_has_the_section_and_both_curves(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_report(view_runs([read_run(folder)]), page)
    text = page.read_text()
    assert '<section id="certificates"' in text
    assert '<a href="#certificates">' in text
    assert "The smoothed map is certified, not the plain one" in text
    section = text[text.index('<section id="certificates"') : text.index('<section id="examples"')]
    # 0.1 of 0.2 is the middle of the drawing; a share of 0.5 is half of its height of 300
    assert 'd="M0 30L500 150L1000 300"' in section
    assert 'd="M0 0L500 15L1000 60"' in section


def test_no_section_without_certificates(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", n=12)
    write_report(view_runs([read_run(run)]), page := tmp_path / "page.html")
    assert 'id="certificates"' not in page.read_text()
    assert overlap_curves(view_runs([read_run(run)])) == []


def test_text_is_escaped(folder: Path, tmp_path: Path) -> None:
    write_json_atomic(folder / "certificates.json", {**CONTENT, "notes": ["<script>alert(1)</script>"]})
    write_report(view_runs([read_run(folder)]), page := tmp_path / "page.html")
    assert "<script>alert" not in page.read_text()


def test_figure(folder: Path, tmp_path: Path) -> None:
    paths = write_figures(view_runs([read_run(folder)]), tmp_path / "figures")
    drawn = [path for path in paths if re.fullmatch(r"certificates-mnist\.(png|pdf)", path.name)]
    assert len(drawn) == 2
    assert all(path.stat().st_size > 3000 for path in drawn)


@pytest.mark.parametrize(
    "change",
    [{"overlap": {"radii": [0.0], "median": []}}, {"overlap": [1]}, {"attack": {"radii": "0", "median": [1]}}],
)
def test_a_wrong_file_is_one_error(folder: Path, change: dict) -> None:
    write_json_atomic(folder / "certificates.json", {**CONTENT, **change})
    with pytest.raises(DataError):
        page_certificates(view_runs([read_run(folder)]))
