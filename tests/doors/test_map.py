"""A new map is one class and one line in the registry: it is then in the commands, in configs and in the battery."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.conformance.battery import check_map
from tests.doors.material import digits_file
from torch import Tensor

import holdfast as hf
from holdfast.attribution import MAPS, Gradient, GradientMap, Maps
from holdfast.cli import main
from holdfast.config import make_config
from holdfast.experiment.measure import MeasureOptions, protocol_of
from holdfast.runs import read_run
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class SquaredGradient(GradientMap):
    """(grad s)^2, entry by entry."""

    score: Score = hf.true_logit
    chunk: int | None = None
    power: int = 2

    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        found = Gradient(chunk=self.chunk).maps(model, x, targets, create_graph=create_graph)
        return Maps([gradient**self.power for gradient in found.maps], found.logits)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAPS, "squared-gradient", SquaredGradient)


def test_it_passes_the_battery() -> None:
    check_map(SquaredGradient)


def test_audit_finds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = "tests.doors.material:network"
    words = f"audit --model {model} --data {digits_file(tmp_path)} --map squared-gradient --steps 2 --limit 6"
    assert main([*words.split(), "--no-strong", "--out", str(tmp_path / "run")]) == 0
    assert "Kendall" in capsys.readouterr().out
    measured = (tmp_path / "run" / "measured.json").read_text()
    assert "SquaredGradient" in measured
    assert "IntegratedGradients" not in measured
    assert len(read_run(tmp_path / "run").examples.rows) == 12


def test_a_config_finds_it_with_its_options() -> None:
    changes = [("evaluate.map", "squared-gradient"), ("evaluate.map_options.power", "4")]
    protocol = protocol_of(make_config("digits/natural", overrides=changes), MeasureOptions())
    for name, attack in protocol.attacks.items():
        score = hf.centred_logit if name in ("strongest", "random-centred") else hf.true_logit
        assert attack.attribution == SquaredGradient(power=4, score=score)


def test_an_unknown_map_is_named_with_those_there_are() -> None:
    config = make_config("digits/natural", overrides=[("evaluate.map", "squared")])
    with pytest.raises(hf.InputError, match=r"map to be one of ig, gradient, .*squared-gradient, got 'squared'"):
        protocol_of(config, MeasureOptions())
    with pytest.raises(hf.InputError, match="options of the map gradient"):
        hf.attribution.make_map("gradient", {"steps": 3})


def test_no_room_but_attribution_knows_integrated_gradients_by_class() -> None:
    source = Path(hf.__file__).parent
    for path in source.rglob("*.py"):
        if "attribution" not in path.parts:
            assert "isinstance(attribution, IntegratedGradients)" not in path.read_text(), path
            assert ", IntegratedGradients)" not in path.read_text(), path


def test_maps_declare_their_cost() -> None:
    costs = {name: make().points for name, make in MAPS.items()}
    assert costs.pop("ig") == 50
    assert costs.pop("smoothgrad") == 25
    assert set(costs.values()) == {1}
    assert torch.equal(torch.tensor(hf.SmoothGrad(samples=7).with_points(3).points), torch.tensor(3))


def test_several_maps_in_a_config() -> None:
    changes = [("evaluate.maps", '["gradient", "ig", "gradcam"]'), ("evaluate.strongest.limit", "7")]
    protocol = protocol_of(make_config("digits/natural", overrides=changes), MeasureOptions())
    first = ["ifia-topk", "strongest", "strongest-true-logit", "random", "random-centred"]
    others = ["strongest:ig", "random-centred:ig", "strongest:gradcam", "random-centred:gradcam"]
    assert list(protocol.attacks) == [*first, *others]
    kinds = {name: type(attack.attribution) for name, attack in protocol.attacks.items()}
    assert kinds["ifia-topk"] is kinds["strongest"] is hf.Gradient
    assert kinds["strongest:ig"] is hf.IntegratedGradients
    assert protocol.attacks["random-centred:gradcam"].attribution == protocol.attacks["strongest:gradcam"].attribution
    assert kinds["random-centred:gradcam"] is hf.GradCAM
    assert set(protocol.attacks) - {"ifia-topk", "random"} == protocol.limits.keys()
