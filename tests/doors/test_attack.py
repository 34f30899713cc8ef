"""A new attack is anything with `run`, `attribution`, `ball` and `eval_k`, and one line in the registry."""

from pathlib import Path

import pytest
import torch
from tests.conformance.battery import check_attack
from tests.doors.material import digits, digits_file, network
from tests.oracles import tiny_images, tiny_net
from torch import Tensor

import holdfast as hf
from holdfast.attacks import ExplanationAttack, Manipulation, Outcome, ProposalAttack
from holdfast.attribution import map_of
from holdfast.cli import main
from holdfast.config import make_config
from holdfast.experiment.measure import MeasureOptions, protocol_of
from holdfast.recipes import ATTACKS, AttackSettings
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.runs import read_run
from holdfast.types import Model


def make_contrast(settings: AttackSettings) -> ExplanationAttack:
    """Gradient-free: up where the clean map is below its median, down elsewhere."""
    attribution = settings.explained()

    def propose(model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        shown = map_of(model, x, y, attribution)
        low = shown < shown.flatten(1).median(1).values[:, None, None]
        return x + settings.eps * torch.where(low, 1.0, -1.0)[:, None]

    return ProposalAttack(
        propose=propose, attribution=attribution, eval_k=settings.eval_k or settings.k, ball=hf.Linf(settings.eps)
    )


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKS, "contrast", make_contrast)


def test_it_passes_the_battery() -> None:
    check_attack(ATTACKS["contrast"](AttackSettings(eps=0.1, steps=1, k=5, ig_steps=3)))


def test_audit_and_report_find_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"audit --model tests.doors.material:network --data {digits_file(tmp_path)} --attacks contrast random"
    assert main([*words.split(), "--limit", "8", "--ig-steps", "4", "--out", str(tmp_path / "run")]) == 0
    assert "contrast" in capsys.readouterr().out
    run = read_run(tmp_path / "run")
    assert {row.attack for row in run.examples.rows} == {"contrast", "random"}
    assert run.panels is not None
    assert run.panels.attack == "contrast"
    assert "contrast" in report_html(view_runs([run]))


def test_a_config_finds_it() -> None:
    config = make_config("digits/natural", overrides=[("evaluate.attacks", '["contrast", "ifia-center"]')])
    assert list(protocol_of(config, MeasureOptions()).attacks) == ["contrast", "ifia-center"]
    config = make_config("digits/natural", overrides=[("evaluate.attacks", '["contrst"]')])
    with pytest.raises(hf.InputError, match=r"attacks to be among ifia-topk, .*contrast, got contrst"):
        protocol_of(config, MeasureOptions())


def test_universal_perturbations_and_manipulation_fit() -> None:
    """One change for all images, and Dombrowski's attack, which has no ball."""
    shift = 0.1 * torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0)).sign()
    data = digits().subset(range(12))
    attribution = hf.IntegratedGradients(steps=4)
    target = torch.zeros(8, 8)
    target[2:4, 2:4] = 1
    attacks = {
        "universal": ProposalAttack(
            propose=lambda model, x, y, *, keys: x + shift, attribution=attribution, eval_k=12, ball=hf.Linf(0.1)
        ),
        "manipulation": ProposalAttack(
            propose=Manipulation(target=target, steps=3, attribution=attribution), attribution=attribution, eval_k=12
        ),
    }
    done = hf.evaluate(network(), data, hf.EvaluationProtocol(attacks=attacks, panels=0))
    assert {row.attack for row in done.rows} == set(attacks)
    assert done.summary["attacks"]["universal"]["outcomes"]["attacked"] > 0


def test_what_loses_the_label_or_moves_nothing_is_a_counted_failure() -> None:
    net, x = tiny_net(), tiny_images(4)
    y, keys = net(x).argmax(1), torch.arange(4)
    attribution = hf.IntegratedGradients(steps=3)
    same = ProposalAttack(propose=lambda model, x, y, *, keys: x, attribution=attribution, eval_k=5)
    assert (same.run(net, x, y, keys=keys).outcome == Outcome.UNMOVED).all()
    other = next(i for i in range(50) if not torch.equal(net(tiny_images(4, i)).argmax(1), y))
    moved = ProposalAttack(
        propose=lambda model, x, y, *, keys: tiny_images(4, other)[: len(x)], attribution=attribution, eval_k=5
    )
    result = moved.run(net, x, y, keys=keys)
    lost = net(tiny_images(4, other)).argmax(1) != y
    assert torch.equal(result.outcome == Outcome.LABEL_LOST, lost)
    assert (result.scores.kendall[lost] == 1).all()
