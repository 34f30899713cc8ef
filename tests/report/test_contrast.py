"""The picture of two networks on the same images."""

from dataclasses import replace
from pathlib import Path

from tests.report.runs import make_panels, write_run

from holdfast.report import view_runs
from holdfast.report.contrast import MOST, attacked_by_both, contrast_figure
from holdfast.report.view import RunView
from holdfast.runs import read_run


def two_views(folder: Path) -> tuple[RunView, ...]:
    for method, strength in (("natural", 0.1), ("erar_plus", 0.8)):
        panels = replace(make_panels(strength, 0), attack="ifia-topk")
        write_run(folder / method, method=method, panels=panels)
    return view_runs([read_run(folder / method) for method in ("natural", "erar_plus")])


def test_images_that_both_runs_attacked_in_the_order_of_their_ids(tmp_path: Path) -> None:
    views = two_views(tmp_path)
    shown = attacked_by_both(views)
    ids = [picture.id for picture in shown]
    assert 0 < len(ids) <= MOST
    assert ids == sorted(ids)
    for view in views:
        outcomes = {row.id: row.outcome for row in view.run.rows_of("ifia-topk")}
        assert {outcomes[i] for i in ids} == {"attacked"}


def test_one_column_per_image_and_two_rows_per_run(tmp_path: Path) -> None:
    views = two_views(tmp_path)
    figure = contrast_figure(views)
    assert figure is not None
    columns = len(attacked_by_both(views))
    assert len(figure.axes) == 5 * columns
    names = [axis.get_ylabel().replace("\n", " ") for axis in figure.axes[::columns]]
    assert names == ["image", "natural map", "natural map, attacked", "erar_plus map", "erar_plus map, attacked"]
    kept = {row.id: row.score("top_k") for row in views[0].run.rows_of("ifia-topk")}
    assert figure.axes[2 * columns].get_xlabel() == f"{kept[attacked_by_both(views)[0].id]:.0%} kept"


def test_no_picture_without_shared_images(tmp_path: Path) -> None:
    views = two_views(tmp_path)
    write_run(tmp_path / "madry", method="madry")
    assert contrast_figure(view_runs([views[0].run, read_run(tmp_path / "madry")])) is None
