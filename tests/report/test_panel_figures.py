"""Panels of images, and the ablations of ERAR side by side."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import make_panels, make_rows, write_run

from holdfast.report import RunView, view_runs
from holdfast.report.panel_figures import ABLATIONS, chosen, draw_panels, panel_figure
from holdfast.runs import Examples, read_run

VARIANTS = [*dict.fromkeys(method for titles in ABLATIONS.values() for method in titles)]


def write(folder: Path, method: str, outcomes: dict[int, str], count: int = 3) -> Path:
    """A run whose first `count` images have pictures; `outcomes` of the images that were not attacked."""
    run = write_run(folder / method, method=method, n=8, log=False, panels=make_panels(0.5, 0, count=count))
    rows = []
    for row in make_rows(0.5, 8, 0):
        outcome = outcomes.get(row.id, "attacked")
        kept = 0.01 * row.id if outcome == "attacked" else None
        rows.append(replace(row, outcome=outcome, scores={**row.scores, "top_k": kept}))
    (run / "examples.csv").unlink()
    Examples(run / "examples.csv").append(rows)
    return run


def views_of(*folders: Path) -> tuple[RunView, ...]:
    return view_runs([read_run(folder) for folder in folders])


def test_panels_show_images_that_every_network_predicts_right(tmp_path: Path) -> None:
    one = write(tmp_path, "madry", {0: "misclassified"})
    two = write(tmp_path, "erar", {1: "label_lost"}, count=4)
    assert [picture.id for picture in chosen(views_of(one, two))] == [2]
    assert [picture.id for picture in chosen(views_of(two))] == [0, 2, 3]
    assert [name for name, _ in draw_panels(views_of(one, two))] == ["panels-mnist-2"]


def test_an_image_that_kept_its_map_was_attacked(tmp_path: Path) -> None:
    assert len(chosen(views_of(write(tmp_path, "madry", {0: "unmoved"})))) == 3


def test_a_prediction_that_is_wrong_counts_without_a_row(tmp_path: Path) -> None:
    panels = make_panels(0.5, 0, count=2)
    wrong = replace(panels, predictions=panels.predictions + np.array([1, 0]))
    run = write_run(tmp_path / "a", n=8, log=False, panels=replace(wrong, attack="another"))
    assert [picture.id for picture in chosen(views_of(run))] == [1]


@pytest.mark.parametrize(
    ("outcome", "said"), [("misclassified", "misclassified, not attacked"), ("label_lost", "no step kept the label")]
)
def test_without_such_an_image_the_panel_says_what_was_not_attacked(tmp_path: Path, outcome: str, said: str) -> None:
    one = write(tmp_path, "madry", dict.fromkeys(range(3), outcome))
    views = views_of(one, write(tmp_path, "erar", {}))
    (picture,) = chosen(views)
    names = [axis.get_ylabel() for axis in panel_figure(picture, views).axes[::4]]
    assert names == [f"madry\n{said}", "erar"]


def test_runs_without_pictures_have_no_panels(tmp_path: Path) -> None:
    assert list(draw_panels(views_of(write_run(tmp_path / "a", n=8)))) == []


def test_ablations_side_by_side(tmp_path: Path) -> None:
    views = views_of(
        *(write(tmp_path, method, {0: "misclassified"} if method == "erar" else {}) for method in VARIANTS)
    )
    figures = dict(draw_panels(views))
    expected = {f"ablation-{name}-mnist-{example}" for name in ABLATIONS for example in (1, 2)}
    assert {name for name in figures if name.startswith("ablation")} == expected
    figure = figures["ablation-regularizers-mnist-2"]
    assert [axis.get_title() for axis in figure.axes[:3]] == ["CACR only", "WACR only", "CACR and WACR"]
    assert [axis.get_ylabel() for axis in figure.axes[::3]] == ["Image", "Perturbed", "Map", "Map, perturbed"]
    assert [axis.get_xlabel() for axis in figure.axes[-3:]] == ["2% of the top pixels kept"] * 3
    assert [axis.get_title() for axis in figures["ablation-nca-mnist-1"].axes[:2]] == ["without P_NCA", "with P_NCA"]


def test_ablations_need_erar_with_the_same_seed(tmp_path: Path) -> None:
    names = ("erar-cacr-only", "erar-wacr-only")
    others = [write(tmp_path, method, {}) for method in names]
    assert not any(name.startswith("ablation") for name, _ in draw_panels(views_of(*others)))
    erar = write_run(tmp_path / "erar", method="erar", seed=1, n=8, panels=make_panels(0.5, 0, count=2))
    assert not any(name.startswith("ablation") for name, _ in draw_panels(views_of(*others, erar)))
