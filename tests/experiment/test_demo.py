"""What the demo runs: networks of the zoo on shipped images, and equal budgets on the digits."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.runs.material import row

import holdfast as hf
from holdfast.commands.demo import comparisons
from holdfast.config import config_from_file, make_config
from holdfast.engine.passes import count_passes
from holdfast.experiment.demo import (
    EPS,
    METHODS,
    PASSES,
    QUICK,
    DemoPlan,
    audit_jobs,
    steps_of,
    training_jobs,
)
from holdfast.experiment.jobs import progress_of
from holdfast.experiment.zoo_job import ZooJob
from holdfast.recipes import METHODS as RECIPES
from holdfast.runs import Examples


@pytest.mark.parametrize("method", METHODS)
def test_passes_of_one_training_step(method: str) -> None:
    (config,) = [job.config() for job in training_jobs(Path("runs"), QUICK) if job.folder.name == method]
    model = hf.Classifier(hf.models.build(config.model.name, num_classes=10, seed=0))
    objective = RECIPES[config.method.name](model, **config.method.settings)
    x, y, ids = hf.data.Loader(hf.data.load("digits"), batch_size=config.train.batch_size).batch(0)
    keys = hf.make_keys(0, ids)
    with count_passes() as counter:
        objective(hf.data.to_float(x), y, keys=keys).total.backward()
    assert counter.passes == pytest.approx(PASSES[method], rel=0.01)


@pytest.mark.parametrize("steps", [DemoPlan().steps, 3000])
def test_every_method_but_natural_gets_the_same_passes(steps: int) -> None:
    spent = [steps_of(method, steps) * PASSES[method] for method in METHODS if method != "natural"]
    assert max(spent) / min(spent) < 1.01
    assert steps_of("natural", steps) == steps_of("madry", steps)
    jobs = {job.folder.name: job.config() for job in training_jobs(Path("runs"), DemoPlan(steps=steps))}
    assert {name: config.train.steps for name, config in jobs.items()} == {m: steps_of(m, steps) for m in METHODS}


def test_all_networks_are_measured_in_the_same_way() -> None:
    plan = DemoPlan(images=5, passes=77, limit=9, digit_passes=88)
    both = [(training_jobs(Path("runs"), plan), 9, 88), (audit_jobs(Path("runs"), plan), 5, 77)]
    for jobs, images, passes in both:
        (evaluate,) = {job.config().evaluate.model_dump_json() for job in jobs}
        wanted = jobs[0].config().evaluate
        assert evaluate
        assert (wanted.limit, wanted.strongest.passes, wanted.strongest.limit) == (images, passes, None)
        assert wanted.attacks == ("strongest", "random")
        assert wanted.map_options == {"score": "centred-logit"}
        assert wanted.ifia is not None
        assert wanted.ifia.ig_steps == wanted.strongest.ig_steps


def test_the_networks_are_small_and_ship_with_the_package() -> None:
    known = {network.name: network for network in hf.zoo.list()}
    for job in audit_jobs(Path("runs"), QUICK):
        network = known[job.preset.removeprefix("zoo:")]
        assert network.packaged
        assert network.bytes < 1_000_000
        ifia, pgd = job.config().evaluate.ifia, job.config().evaluate.pgd
        assert ifia is not None
        assert pgd is not None
        assert ifia.eps == pgd.eps == pytest.approx(EPS)
        assert job.config().data.name == "fashion-sample"
        images = hf.data.load("fashion-sample", split="test")
        with torch.no_grad():
            right = hf.load(job.preset)(hf.data.to_float(images.x)).argmax(1) == images.y
        assert right.float().mean() > 0.75, "a network that does not predict has no maps to compare"


def zoo_job(folder: Path, passes: int = 50) -> ZooJob:
    changes = (("data.name", "fashion-sample"), ("evaluate.strongest.passes", str(passes)))
    return ZooJob(preset="zoo:gtsrb/madry", folder=folder, changes=changes)


def test_a_network_of_the_zoo_becomes_a_run_directory(tmp_path: Path) -> None:
    job = zoo_job(tmp_path / "run")
    assert not job.trained
    job.prepare()
    assert (job.trained, job.finished, progress_of(job, 40).steps_done) == (True, False, 40)
    config, original = config_from_file(tmp_path / "run" / "config.toml"), make_config(file=_zoo_config())
    assert (config.data.name, config.evaluate.strongest.passes) == ("fashion-sample", 50)
    assert (config.train, config.model, config.method) == (original.train, original.model, original.method)
    weights, expected = hf.load(tmp_path / "run").state_dict(), hf.load("zoo:gtsrb/madry").state_dict()
    assert all(torch.equal(weights[key], expected[key]) for key in expected)
    before = (tmp_path / "run" / "weights.safetensors").stat().st_mtime_ns
    job.prepare()
    assert (tmp_path / "run" / "weights.safetensors").stat().st_mtime_ns == before


def test_another_network_or_measurement_in_the_folder_is_refused(tmp_path: Path) -> None:
    zoo_job(tmp_path).prepare()
    with pytest.raises(hf.InputError, match="another evaluate"):
        zoo_job(tmp_path, passes=60).prepare()
    with pytest.raises(hf.InputError, match="another preset"):
        replace(zoo_job(tmp_path), preset="zoo:gtsrb/natural").prepare()


def test_a_comparison_needs_pairs(tmp_path: Path) -> None:
    made = {
        "low": [row(i, 0.2 + 0.01 * i, attack="strongest") for i in range(20)],
        "high": [row(i, 0.7, attack="strongest") for i in range(20)],
        "wrong": [row(i, outcome="misclassified", prediction=2, attack="strongest") for i in range(20)],
    }
    runs = {name: tmp_path / name for name in made}
    for name, rows in made.items():
        Examples(runs[name] / "examples.csv").append(rows)
    assert comparisons(runs, (("high", "wrong"),)) == []
    (sentence,) = comparisons(runs, (("high", "wrong"), ("high", "low")))
    assert sentence.startswith("high minus low, mean paired difference, strongest attack: top-k +0.405 [")


def _zoo_config() -> Path:
    (network,) = [network for network in hf.zoo.list() if network.name == "gtsrb/madry"]
    return network.folder / "config.toml"
