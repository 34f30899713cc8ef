"""Accuracy under APGD: the worst of its attacks, resumable, and shown only where it was measured."""

from pathlib import Path

import pytest
import torch
from tests.evaluation.test_evaluate import plan
from tests.trained import trained

import holdfast as hf
from holdfast.config import config_text, make_config
from holdfast.errors import InputError
from holdfast.evaluation import evaluate
from holdfast.evaluation.apgd_accuracy import read_apgd
from holdfast.experiment.jobs import Job
from holdfast.experiment.measure import MeasureOptions, protocol_of
from holdfast.report import view_runs
from holdfast.report.render import to_csv
from holdfast.report.tables import results_table
from holdfast.runs import read_run

PAIR = hf.recipes.apgd_pair(eps=0.1, steps=10)
UNDER = {"apgd": PAIR, "apgd_limit": 40, "panels": 0, "limit": 4}


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return trained("digits-cnn", 8)


@pytest.fixture(scope="module")
def data() -> hf.data.Dataset:
    return hf.data.load("digits", split="test")


def test_the_worst_of_both_attacks(model, data, tmp_path: Path) -> None:
    summary = evaluate(model, data, plan(**UNDER), out=tmp_path).summary
    part = data.stratified(40, seed=0)
    x, keys = hf.data.to_float(part.x), hf.make_keys(0, part.ids)
    right = torch.stack([model(attack(model, x, part.y, keys=keys)).argmax(1) == part.y for attack in PAIR])
    assert summary["apgd_accuracy"] == pytest.approx(float(right.all(0).double().mean()))
    assert summary["apgd_accuracy_n"] == 40
    assert summary["apgd_accuracy"] < summary["natural_accuracy"] - 0.1
    low, high = summary["apgd_accuracy_ci95"]
    assert low < summary["apgd_accuracy"] < high
    assert read_apgd(tmp_path / "apgd.csv") == dict(zip(part.ids.tolist(), right.all(0).tolist(), strict=True))


def test_the_second_attack_runs_on_what_the_first_has_left(model, data) -> None:
    class Told(hf.attacks.APGD):
        def run(self, *args, active, **kwargs):
            tried.append(int(active.sum()))
            return super().run(*args, active=active, **kwargs)

    tried: list[int] = []
    pair = tuple(Told(attack.loss, ball=attack.ball, steps=attack.steps) for attack in PAIR)
    evaluate(model, data, plan(**UNDER | {"apgd": pair}))
    assert tried[0] == 40
    assert 0 < tried[1] < 30


def test_batch_size_changes_nothing_and_an_interrupted_measurement_goes_on(model, data, tmp_path: Path) -> None:
    wanted = plan(**UNDER | {"apgd_limit": None})
    evaluate(model, data, wanted, out=tmp_path / "whole")

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "APGD" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, data, wanted, out=tmp_path / "broken", on_progress=interrupt)
    assert len(read_apgd(tmp_path / "broken" / "apgd.csv")) == 256
    evaluate(model, data, wanted, out=tmp_path / "broken")
    evaluate(model, data, plan(**UNDER | {"apgd_limit": None, "batch_size": 400}), out=tmp_path / "large")
    one, two, three = ((tmp_path / name / "apgd.csv").read_text() for name in ("whole", "broken", "large"))
    assert one == two == three


def test_it_can_be_measured_later_and_leaves_other_files_alone(model, data, tmp_path: Path) -> None:
    before = evaluate(model, data, plan(panels=0, limit=4), out=tmp_path)
    assert "apgd_accuracy" not in before.summary
    assert "apgd_accuracy" not in results_csv(tmp_path)
    files = {name: (tmp_path / name).read_text() for name in ("accuracy.csv", "examples.csv")}
    seen: list[str] = []
    later = evaluate(
        model, data, plan(**UNDER), out=tmp_path, on_progress=lambda what, done, total: seen.append(what)
    ).summary
    assert set(seen) == {"accuracy", "APGD"}
    assert files == {name: (tmp_path / name).read_text() for name in files}
    assert later["pgd_accuracy"] == before.summary["pgd_accuracy"]
    assert f"{later['apgd_accuracy']:.6g}" in results_csv(tmp_path).splitlines()[1].split(",")
    fewer = evaluate(model, data, plan(**UNDER | {"apgd_limit": 20}), out=tmp_path).summary
    assert fewer["apgd_accuracy_n"] == 20
    stronger = hf.recipes.apgd_pair(eps=0.1, steps=20)
    with pytest.raises(hf.DataError, match="another attack apgd"):
        evaluate(model, data, plan(**UNDER | {"apgd": stronger}), out=tmp_path)


def results_csv(folder: Path) -> str:
    return to_csv(results_table(view_runs([read_run(folder)])))


def test_damaged_rows_are_named(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(**UNDER), out=tmp_path)
    path = tmp_path / "apgd.csv"
    text = path.read_text()
    path.write_text(text.replace(",1,", ",0,", 1))
    with pytest.raises(hf.DataError, match=r"cannot read line \d+ of .*apgd.csv"):
        read_apgd(path)


def test_two_classes() -> None:
    """The second loss is the margin there."""
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), torch.rand(8, 1, 2, 2)
    y = net(x).argmax(1)
    for attack in hf.recipes.apgd_pair(eps=0.9, steps=5):
        assert attack.run(net, x, y, keys=torch.arange(8)).fooled.any()


def test_configs_name_it() -> None:
    config = make_config("digits/natural")
    protocol = protocol_of(config, MeasureOptions())
    assert protocol.apgd == hf.recipes.apgd_pair(eps=0.15, steps=50)
    assert protocol.apgd_limit == 500
    assert protocol_of(config, MeasureOptions(pgd_limit=7)).apgd_limit == 7
    assert protocol_of(make_config("mnist/madry:paper"), MeasureOptions()).apgd == ()
    for name in ("digits", "mnist", "fashion-mnist", "gtsrb", "flower17"):
        evaluated = make_config(f"{name}/natural:cpu").evaluate
        assert evaluated.apgd.eps == evaluated.pgd.eps


def test_a_run_from_before_there_was_apgd_is_still_the_run_of_its_preset(tmp_path: Path) -> None:
    job = Job(preset="digits/natural:cpu", folder=tmp_path)
    (tmp_path / "config.toml").write_text(config_text(make_config(job.preset, overrides=[("evaluate.apgd", "none")])))
    job.check()
    changed = make_config(job.preset, overrides=[("evaluate.apgd.steps", "7")])
    (tmp_path / "config.toml").write_text(config_text(changed))
    with pytest.raises(InputError, match="another evaluate"):
        job.check()


def test_audit_says_it_on_request(model, data) -> None:
    settings = hf.AuditSettings(eps=0.1, steps=2, ig_steps=2, limit=12, strong=False, apgd=True)
    audit = hf.audit(model, data, settings)
    assert audit.summary["apgd_accuracy_n"] == 12
    assert f"{100 * audit.summary['apgd_accuracy']:.0f} % under APGD on 12" in str(audit)
