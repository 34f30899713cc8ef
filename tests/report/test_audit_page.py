"""The page of an audit: verdict, figures, worst images, next commands, notes and protocol, for a reader in a hurry."""

import base64
import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.report.runs import BETTER, write_audit, write_doubtful_audit, write_run

from holdfast.cli import main
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.report.lead import attacked
from holdfast.report.overlay import STOPS, heat_table, overlay, png_uri
from holdfast.report.page import TEMPLATES
from holdfast.report.pictures import pictures
from holdfast.report.render import to_markdown
from holdfast.report.tables import results_table
from holdfast.report.write import all_tables
from holdfast.runs import read_run, write_json_atomic


def page_of(*folders: Path) -> str:
    return report_html(view_runs([read_run(folder) for folder in folders]))


def words(page: str) -> str:
    """The text that a reader sees, without tags, scripts and styles."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def page(audit: Path) -> str:
    return page_of(audit)


def test_the_page_opens_with_names_verdict_and_figures(page: str) -> None:
    said = words(page)
    start = said.index("Audit of nets:resnet18 on street-signs", said.index("Provenance"))
    order = [
        "The maps are not robust",
        "the median image keeps 40 % of its 12 most important pixels",
        "Kept under random noise 95 %",
        "Kept under the strongest attack 40 %",
        "Accuracy 98 %",
        "The 3 images with the most damage",
        "What to do next",
        "Protocol",
        "Results",
    ]
    places = [said.index(text, start) for text in order]
    assert places == sorted(places)
    assert "not recorded" not in said
    assert "<title>Audit of nets:resnet18 on street-signs</title>" in page


def test_the_worst_attacked_images_come_first(audit: Path, page: str) -> None:
    titles = re.findall(r"<h3>(image \d+, class [\w ]+)</h3>", page)
    assert titles == [f"image {i}, class {name}" for i, name in ((5, "5"), (3, "3"), (4, "4"))]
    found = pictures(view_runs([read_run(audit)]))
    assert [picture.id for picture in found] == [5, 3, 4, 2, 1, 0]  # 0 is misclassified
    assert [picture.id for picture in attacked(found)] == [5, 3, 4, 2, 1]
    kept = re.findall(r"Keeps <b>(\d+ %)</b>", page)
    assert kept == ["5 %", "10 %", "15 %"]


def test_every_side_has_overlay_map_and_image(page: str) -> None:
    for kind in ("overlay", "map", "image"):
        assert len(re.findall(rf'<img class="picture as-{kind}" src="data:image/png', page)) == 6
    assert len(re.findall(r'<input type="radio" name="shown"', page)) == 3


def test_next_commands_notes_and_protocol(tmp_path: Path) -> None:
    said = words(page_of(write_audit(tmp_path / "a", notes="the search ran out of time")))
    assert "holdfast harden --model nets:resnet18 --weights w.safetensors --data street-signs" in said
    assert "strongest, random: the search ran out of time" in said
    protocol = {
        "Perturbation": "at most 8/255 per pixel, prediction kept",
        "Explanation": "integrated gradients with 50 points (of the centred logit), for the given class",
        "Attacks": "strongest, random; 2,000 passes per image",
        "Compared": "the 12 most important pixels of each map",
        "Images": "40 of 900, a stratified sample",
        "Seed": "7",
        "Other settings": "batch_size 16",
    }
    for key, text in protocol.items():
        assert f"{key} {text}" in said


def test_a_small_audit_says_that_it_cannot_say(tmp_path: Path) -> None:
    said = words(page_of(write_audit(tmp_path / "a", n=12)))
    assert "This audit cannot say whether the maps are robust : only 11 images were attacked" in said
    assert (
        "holdfast audit --model nets:resnet18 --weights w.safetensors --data street-signs --out runs/signs --limit 64"
        in said
    )


def test_without_labels_there_is_no_accuracy(tmp_path: Path) -> None:
    said = words(page_of(write_audit(tmp_path / "a", labels="predicted")))
    assert "Accuracy n/a not measured without labels" in said
    assert "for the predicted class" in said


def test_an_unfinished_audit_keeps_its_names(tmp_path: Path, audit: Path) -> None:
    from holdfast.runs import RunInfo

    run = write_audit(tmp_path / "a")
    about = read_run(audit).summary["audit"]  # type: ignore[index]
    (run / "summary.json").unlink()
    info = RunInfo(dataset="street-signs", method="nets:resnet18", preset="audit", seed=7, audit=about)
    said = words(report_html(view_runs([read_run(run)], unfinished=info)))
    assert "Audit of nets:resnet18 on street-signs" in said
    assert "the numbers are preliminary" in said
    assert "The maps are not robust" in said


def test_several_audits_are_compared_with_their_verdicts(tmp_path: Path) -> None:
    said = words(page_of(write_audit(tmp_path / "a"), write_audit(tmp_path / "b", kept=0.9, model="nets:hardened")))
    assert "nets:resnet18: The maps are not robust" in said
    assert "nets:hardened: The maps are robust to these attacks" in said
    assert "nets:hardened minus nets:resnet18 under strongest, mean paired difference: top-k" in said


def test_the_comparison_in_the_table_is_that_of_the_sentence(tmp_path: Path) -> None:
    from holdfast.report.compare import compare

    views = view_runs(
        [read_run(write_audit(tmp_path / "a")), read_run(write_audit(tmp_path / "b", kept=0.9, model="nets:hardened"))]
    )
    comparisons = compare(views)
    points = 100 * 0.5 * 34 / 39  # 34 of the 39 attacked examples keep 0.9 instead of 0.4
    assert f"top-k +{points:.1f} points [" in comparisons["nets:hardened"].sentence()
    assert f"+{points:.1f} [" in to_markdown(results_table(views, comparisons))


def mixed(tmp_path: Path, **other: Any) -> tuple[Path, Path]:
    settings = {"eps": 0.3, "steps": 50, "seed": 7}
    return write_audit(tmp_path / "a"), write_audit(
        tmp_path / "b", model="nets:hardened", **({"settings": settings} | other)
    )


def test_runs_with_different_budgets_are_not_compared(tmp_path: Path) -> None:
    folders = mixed(tmp_path)
    views = view_runs([read_run(folder) for folder in folders])
    names = [table.name for table in all_tables(views)]
    assert "results-street-signs, ε = 8/255, k = 12" in names
    assert "results-street-signs, ε = 0.3, k = 12" in names
    assert not any(name.startswith("paired") for name in names)
    said = words(page_of(*folders))
    assert "minus" not in said
    assert "were attacked with different budgets (ε = 8/255, k = 12; ε = 0.3, k = 12)" in said
    assert "street-signs, ε = 0.3, k = 12" in said


SETTINGS = {"eps": 8 / 255, "passes": 2000, "steps": 50, "map": "ig", "seed": 7}


def test_audits_of_different_maps_are_not_compared(tmp_path: Path) -> None:
    folders = mixed(tmp_path, settings=SETTINGS | {"map": "gradcam"})
    views = view_runs([read_run(folder) for folder in folders])
    groups = ["street-signs, ε = 8/255, k = 12, map ig", "street-signs, ε = 8/255, k = 12, map gradcam"]
    assert [view.group for view in views] == groups
    said = words(page_of(*folders))
    assert "minus" not in said
    assert "runs on street-signs were attacked on different maps (ε = 8/255, k = 12, map ig; " in said


def test_the_first_of_several_maps_is_compared(tmp_path: Path) -> None:
    folders = mixed(tmp_path, settings=SETTINGS | {"maps": ["ig", "gradcam"]})
    assert {view.group for view in view_runs([read_run(folder) for folder in folders])} == {"street-signs"}


def test_different_passes_are_noted(tmp_path: Path) -> None:
    folders = mixed(tmp_path, settings=SETTINGS | {"passes": 8000})
    said = words(page_of(*folders))
    assert (
        "the strongest attack had different budgets per image (nets:resnet18 2,000 passes, nets:hardened 8,000" in said
    )
    assert "minus" in said
    assert "different budgets" not in words(page_of(*mixed(tmp_path / "same", settings=SETTINGS)))


def test_two_audits_have_their_notes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["the network returns probabilities"]
    audits = [
        write_audit(tmp_path / name, model=f"nets:{name}", notes="ran out of time", told=[*told, f"about {name}"])
        for name in ("a", "b")
    ]
    said = words(page_of(*audits))
    for note in (*told, "about a", "about b", "strongest, random: ran out of time"):
        assert said.count(note) == 1
    assert main(["report", *map(str, audits), "--out", str(tmp_path / "page.html")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("note: nets:a, nets:b: the network returns probabilities") == 1
    assert "note: nets:b: about b" in printed


def test_the_notes_of_both_audits_are_in_the_comparison_and_not_below_it(tmp_path: Path) -> None:
    audits = [write_audit(tmp_path / name, model=f"nets:{name}", told=["softmax"]) for name in ("before", "after")]
    views = view_runs([read_run(folder) for folder in audits])
    said = words(report_html(views, before_after=replace(BETTER, notes=("softmax",))))
    assert said.count("softmax") == 1


def test_different_k_is_a_different_budget(tmp_path: Path) -> None:
    views = view_runs([read_run(folder) for folder in mixed(tmp_path, settings={"eps": 8 / 255, "seed": 7}, k=30)])
    assert [view.group for view in views] == ["street-signs, ε = 8/255, k = 12", "street-signs, ε = 8/255, k = 30"]


def test_budgets_of_older_runs_are_read_from_what_was_measured(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / method, method=method, log=False) for method in ("natural", "madry")]
    for run, eps in zip(runs, (0.1, 0.3), strict=True):
        text = f"Search(pgd=PGD(loss=TopKMass(k=9), ball=Linf(eps={eps}), steps=5), eval_k=100)"
        write_json_atomic(run / "measured.json", {"attack ifia-topk": text})
    views = view_runs([read_run(run) for run in runs])
    assert [view.group for view in views] == ["mnist, ε = 0.1, k = 100", "mnist, ε = 0.3, k = 100"]
    assert "paper 99.17 %" in to_markdown(results_table(views[:1]))  # the dataset is still MNIST
    same = view_runs([read_run(runs[0]), read_run(runs[0])])
    assert {view.group for view in same} == {"mnist"}


def test_colours_of_page_and_overlay_are_the_same() -> None:
    text = re.search(r"const STOPS = (\[\[.*?\]\]);", (TEMPLATES / "heat.js").read_text())
    assert text
    assert re.findall(r"\d+", text[1]) == [str(value) for stop in STOPS for value in stop]
    table = heat_table()
    assert table.shape == (256, 3)
    assert (tuple(table[0]), tuple(table[-1])) == (STOPS[0], STOPS[-1])


def test_overlay_by_hand() -> None:
    image = np.zeros((1, 3, 3), np.uint8)
    image[0, 0] = (255, 0, 0)
    levels = np.array([[0, 0, 64]], np.uint8)
    mixed = overlay(image, levels)
    assert mixed[0, 0].tolist() == [57, 57, 57]  # 0.75 x 0.299 x 255
    assert mixed[0, 1].tolist() == [0, 0, 0]
    assert mixed[0, 2].tolist() == np.rint(0.9 * (64 / 255) ** 0.5 * heat_table()[64]).tolist()


def test_a_map_alone_is_a_small_picture_in_its_colours() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    picture = Image.open(io.BytesIO(base64.b64decode(png_uri(levels, heat=True).partition(",")[2])))
    assert picture.mode == "P"
    assert np.array_equal(np.asarray(picture.convert("RGB")).reshape(256, 3), heat_table())


def test_the_map_that_was_audited_is_the_one_to_harden(tmp_path: Path) -> None:
    settings = {"eps": 8 / 255, "passes": 2000, "seed": 7}
    for name, said in (("gradcam", "eps=0.03137, map='gradcam', out="), ("MyMap", "eps=0.03137, out=")):
        folder = write_audit(tmp_path / name, settings=settings | {"map": name}, command=[])
        assert f"hf.harden(model, train_data, {said}" in words(page_of(folder))
    several = write_audit(tmp_path / "several", maps={"gradcam": 0.6}, command=[])
    assert "hf.harden(model, train_data, eps=0.03137, map='gradcam', out=" in words(page_of(several))


def test_several_maps_are_compared_at_the_top(tmp_path: Path) -> None:
    said = words(page_of(write_audit(tmp_path / "a", maps={"gradient": 0.2, "gradcam": 0.85})))
    order = [
        "Of 3 explanations, Grad-CAM holds best",
        "its maps keep 85 % of their most important pixels on average",
        "The Grad-CAM maps are robust to these attacks: under the strongest attack",
        "Kept under the strongest attack 85 %",
        "Explanations compared",
        "Grad-CAM 95.0 % 85.0 % best 0.850",
        "integrated gradients 95.0 % ",
        "gradient 95.0 % 20.0 % -65.0 [-65.0, -65.0] 0.200",
        "Means over the same 39 images",
        "What to do next",
    ]
    places = [said.index(text) for text in order]
    assert places == sorted(places)
    assert "integrated gradients with 50 points, gradient, Grad-CAM (of the centred logit)" in said
    assert "2,000 passes per image and map" in said


@pytest.mark.parametrize("cause", ["near chance", "failed attacks"])
def test_doubts_about_the_order_of_maps_come_first(tmp_path: Path, cause: str) -> None:
    summary = write_doubtful_audit(tmp_path, cause)
    assert list(summary["audit"]["verdict"]["reasons"]) == [cause]
    page = page_of(tmp_path)
    headline, below = re.findall(r'<h1 class="cannot-say">(.*?)</h1>.*?<p class="second">(.*?)</p>', page, re.DOTALL)[0]
    assert headline.startswith("This audit cannot say whether the maps are robust")
    assert below.startswith("Of 3 explanations, Grad-CAM holds best")
