"""Pictures: they show the images that the rows were measured on, and cost no second attack."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.test_evaluate import plan
from tests.trained import trained

import holdfast as hf
from holdfast.engine.passes import count_passes
from holdfast.evaluation import EvaluationProtocol, evaluate
from holdfast.evaluation.perturbed import FILE, Found, Perturbed, worst_rows
from holdfast.evaluation.protocol import tensors
from holdfast.runs import ExampleRow, Panels

POINTS = 5


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return trained("digits-cnn", 8)


@pytest.fixture(scope="module")
def data() -> hf.data.Dataset:
    return hf.data.load("digits", split="test")


def protocol(**changes) -> EvaluationProtocol:
    """Two attacks on 20 images in batches of 8; the pictures show the first."""
    attacks = {name: plan().attacks[name] for name in ("ifia-topk", "random")}
    return plan(**({"attacks": attacks, "pgd": None, "accuracy_limit": 20, "panels": 2} | changes))


def passes_of(action: Callable[[], object]) -> int:
    with count_passes() as counter:
        action()
    return counter.passes


def same(one: Panels | None, two: Panels | None) -> bool:
    assert one is not None
    assert two is not None
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in vars(one))


def close(one: np.ndarray, two: np.ndarray) -> bool:
    """Equal in half precision, but for a few entries: another batch may change the sign of a tiny gradient."""
    return bool((np.abs(one.astype(np.float32) - two) < 2e-3 * np.abs(two).max()).mean() > 0.95)


def interrupted(model, data, settings: EvaluationProtocol, out: Path) -> None:
    """An evaluation that stops after the second batch under the first attack."""

    def stop(what: str, done: int, total: int) -> None:
        if what == "ifia-topk" and done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, data, settings, out=out, on_progress=stop)


def test_pictures_cost_only_their_maps(model, data) -> None:
    without = passes_of(lambda: evaluate(model, data, protocol(panels=0)))
    found = []
    with_them = passes_of(lambda: found.append(evaluate(model, data, protocol())))
    shown = len(found[0].panels.ids)
    assert 2 <= shown <= 5
    assert with_them - without == shown * 2 * 2 * POINTS  # clean and perturbed, each point forward and backward


def test_they_show_the_images_of_the_rows(model, data) -> None:
    panels, subset = evaluate(model, data, protocol()).panels, data.stratified(20, seed=0)
    assert panels is not None
    attack, by_id = protocol().attacks["ifia-topk"], {}
    for start in (0, 8, 16):
        part = subset.subset(range(start, min(start + 8, 20)))
        x, y, keys = tensors(part, 0, None)
        by_id |= dict(zip(part.ids.tolist(), attack(model, x, y, keys=keys), strict=True))
    attacked = torch.stack([by_id[i] for i in panels.ids.tolist()])
    assert np.array_equal(panels.perturbed, attacked.half().numpy())


def test_they_equal_those_of_an_attack_on_the_pictured_images_alone(model, data) -> None:
    panels, subset = evaluate(model, data, protocol()).panels, data.stratified(20, seed=0)
    assert panels is not None
    part = subset.subset([subset.ids.tolist().index(i) for i in panels.ids])
    x, y, keys = tensors(part, 0, None)
    attack = protocol().attacks["ifia-topk"]
    x_adv = attack(model, x, y, keys=keys)
    assert close(panels.perturbed, x_adv.numpy())
    assert close(panels.perturbed_map, hf.attribution.map_of(model, x_adv, y, attack.attribution).detach().numpy())


def test_an_interruption_changes_no_picture_and_costs_no_attack(model, data, tmp_path: Path) -> None:
    whole, one, two = evaluate(model, data, protocol()).panels, tmp_path / "one", tmp_path / "two"
    interrupted(model, data, protocol(), one)
    assert (one / FILE).exists()
    shutil.copytree(one, two)
    with_them = passes_of(lambda: evaluate(model, data, protocol(), out=one))
    without = passes_of(lambda: evaluate(model, data, protocol(panels=0), out=two))
    assert same(hf.runs.read_run(one).panels, whole)
    assert with_them - without == len(whole.ids) * 2 * 2 * POINTS
    assert not (one / FILE).exists()


def test_images_that_are_not_at_hand_are_attacked_again(model, data, tmp_path: Path) -> None:
    whole, passes = evaluate(model, data, protocol()), {}
    for name in ("kept", "gone", "damaged"):
        interrupted(model, data, protocol(), tmp_path / name)
    (tmp_path / "gone" / FILE).unlink()
    (tmp_path / "damaged" / FILE).write_bytes(b"PK")
    for name in ("kept", "gone", "damaged"):
        passes[name] = passes_of(lambda name=name: evaluate(model, data, protocol(), out=tmp_path / name))
        found = hf.runs.read_run(tmp_path / name).panels
        assert found is not None
        assert whole.panels is not None
        assert np.array_equal(found.ids, whole.panels.ids)
        assert close(found.perturbed, whole.panels.perturbed)
    assert passes["kept"] < passes["gone"] == passes["damaged"]


def test_a_finished_evaluation_attacks_nothing(model, data, tmp_path: Path) -> None:
    first = evaluate(model, data, protocol(), out=tmp_path)
    again = []
    nothing = passes_of(lambda: evaluate(model, data, protocol(panels=0), out=tmp_path))
    assert passes_of(lambda: again.append(evaluate(model, data, protocol(), out=tmp_path))) == nothing
    assert same(again[0].panels, first.panels)
    more = evaluate(model, data, protocol(panels=4), out=tmp_path)  # two more pictures of finished rows
    assert more.panels is not None
    assert len(more.panels.ids) > len(first.panels.ids)


def row(example: int, top_k: float, kendall: float = 0.0, outcome: str = "attacked") -> ExampleRow:
    scores = {"top_k": top_k, "kendall": kendall}
    return ExampleRow(attack="a", id=example, label=0, prediction=0, outcome=outcome, scores=scores)


def test_worst_rows() -> None:
    rows = [row(0, 0.5), row(1, 0.2, 0.3), row(2, 0.2, 0.1), row(3, 0.1, outcome="unmoved"), row(4, 0.5), row(5, 0.9)]
    assert [r.id for r in worst_rows(rows)] == [2, 1, 0]


def images(*ids: int) -> dict[tuple[str, int], torch.Tensor]:
    return {("a", i): torch.full((1, 8, 8), float(i)) for i in ids}


def test_the_first_and_the_three_worst_so_far_are_kept(data, tmp_path: Path) -> None:
    subset = replace(data.subset(range(6)), ids=torch.arange(6))
    kept = Perturbed(subset, 1, path=tmp_path / FILE)
    rows = [row(0, 0.9), row(1, 0.5), row(2, 0.4), row(3, 0.3)]
    found = kept.candidates(rows, torch.stack(list(images(0, 1, 2, 3).values())))
    assert found.keys() == images(0, 1, 2, 3).keys()
    kept.update(Found.unpacked(Found(rows, found).packed()))
    kept.update(Found([row(4, 0.1), row(5, 0.6), row(99, 0.0)], images(4)))  # 99 is not in the subset
    assert kept.images.keys() == images(0, 2, 3, 4).keys()
    again = Perturbed(subset, 1, [*rows, row(4, 0.1)], path=tmp_path / FILE)
    assert all(torch.equal(image, images(key[1])[key]) for key, image in again.images.items())
    assert again.images.keys() == kept.images.keys()
    assert Perturbed(subset, 1, rows[:1], path=tmp_path / FILE).images.keys() == images(0).keys()  # those with a row
    again.delete_file()
    assert not (tmp_path / FILE).exists()


def test_without_pictures_nothing_is_kept(data, tmp_path: Path) -> None:
    kept = Perturbed(data, 0, path=tmp_path / FILE)
    assert kept.candidates([row(0, 0.1)], torch.zeros(1, 1, 8, 8)) == {}
    kept.update(Found([row(0, 0.1)], {}))
    assert not (tmp_path / FILE).exists()
