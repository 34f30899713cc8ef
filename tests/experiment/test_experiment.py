"""From the command to a run directory and back: the same weights however a run was cut up or started."""

import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import torch
import tyro
from torch import nn

from holdfast.commands.train import train
from holdfast.config import RunConfig, config_from_file, make_config, split_overrides
from holdfast.data import Loader
from holdfast.errors import DataError, InputError
from holdfast.experiment import run
from holdfast.experiment.layout import WEIGHTS
from holdfast.experiment.measure import total_cost
from holdfast.experiment.networks import build_model, load
from holdfast.experiment.run import load_data, prepare, run_training, start_of
from holdfast.experiment.weights import put_weights
from holdfast.models import Classifier
from holdfast.runs import read_json, read_log
from holdfast.training import Processes

SHORT = "--train.steps 20 --train.log-every 5 --train.checkpoint-every 7 --quiet"
MINE = "my(run)"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def holdfast_train(line: str) -> None:
    """As the command line calls it."""
    rest, overrides = split_overrides(line.split())
    tyro.cli(partial(train, overrides=tuple(overrides)), args=rest)


def weights(folder: str) -> bytes:
    return (Path(folder) / WEIGHTS).read_bytes()


def test_a_run_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    holdfast_train(f"digits/natural {SHORT}")
    out = capsys.readouterr().out
    assert "wrote runs/digits/natural: 20 steps" in out
    assert "holdfast evaluate runs/digits/natural" in out
    folder = Path("runs/digits/natural")
    assert [entry["step"] for entry in read_log(folder / "log.jsonl").entries] == [5, 10, 15, 20]
    provenance = read_json(folder / "provenance.json")
    assert (provenance["seeds"], provenance["training"]["steps"], provenance["resumed"]) == ([0], 20, [])
    assert provenance["finished"] >= provenance["started"]
    config = config_from_file(folder / "config.toml")
    assert (config.model.num_classes, config.model.in_channels, config.model.image_size) == (10, 1, (8, 8))

    model = load(folder)
    assert not model.training
    again = prepare(config).model
    put_weights(again, folder)
    x = torch.rand(4, 1, 8, 8)
    assert torch.equal(model(x), again.eval()(x))

    holdfast_train("--config runs/digits/natural/config.toml --out b --quiet")
    assert weights("b") == weights("runs/digits/natural")
    assert (Path("b") / "config.toml").read_text() == (folder / "config.toml").read_text()
    holdfast_train(f"digits/natural {SHORT} --seed 1 --out c")
    assert weights("c") != weights("b")

    with pytest.raises(InputError, match="a new run directory, got b, which holds a run; continue it with --resume"):
        holdfast_train(f"digits/natural {SHORT} --out b")
    before = [(file, file.read_bytes()) for file in Path("b").iterdir() if file.is_file() and file.name != "lock"]
    holdfast_train("--out b --resume --quiet")  # a finished run is left as it is
    assert [(file, file.read_bytes()) for file, _ in before] == before


def test_interrupted_and_resumed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    holdfast_train(f"digits/madry {SHORT} --out whole")
    batch = Loader.batch

    def interrupting(self: Loader, step: int):
        if step == 11:
            signal.raise_signal(signal.SIGINT)
        return batch(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Loader, "batch", interrupting)
        with pytest.raises(SystemExit) as stop:
            holdfast_train(f"digits/madry {SHORT} --out {MINE} --device cpu")
    assert stop.value.code == 130
    message = capsys.readouterr().err
    assert "stopped by SIGINT after step 12" in message
    command = message.split("resume with: ")[1].strip()
    assert command == f"holdfast train --out {shlex.quote(MINE)} --resume"
    with pytest.raises(DataError, match="weights are written when training is finished"):
        load(MINE)
    with pytest.raises(InputError, match=r"train.steps = 20, as at the start of the run, got 30; resume with"):
        holdfast_train(f"--out {MINE} --resume --train.steps 30")
    with pytest.raises(InputError, match=r"method.settings.eps = 0.15"):
        holdfast_train(f"digits/madry {SHORT} --out {MINE} --resume --method.settings.eps 0.2")
    holdfast_train(f"--out {MINE} --resume --quiet --train.log-every 10 --evaluate.limit 9")
    assert config_from_file(Path(MINE, "config.toml")).evaluate.limit == 9
    assert weights(MINE) == weights("whole")
    assert len(read_json(Path(MINE, "provenance.json"))["resumed"]) <= 1  # none if it was the same second


def test_start_from_weights() -> None:
    holdfast_train(f"digits/natural {SHORT} --out a")
    for init in ("a", f"a/{WEIGHTS}"):
        config = make_config("digits/madry", overrides=[("train.init", init)])
        model = prepare(config, start=start_of(config, Path("b"))).model
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in load("a").state_dict().items())
    holdfast_train("digits/erar --init a --out b --quiet --train.steps 1")
    assert config_from_file(Path("b/config.toml")).train.init == "a"
    with pytest.raises(InputError, match=r"initial weights .* got none at nothing.safetensors"):
        holdfast_train("digits/madry --init nothing.safetensors")
    with pytest.raises(InputError, match=r"weights as \.safetensors, \.pt"):
        holdfast_train("digits/madry --init a/config.toml")
    assert not Path("runs").exists()  # what cannot start leaves nothing behind


def test_start_from_the_run_beside_and_count_its_cost() -> None:
    holdfast_train(f"digits/natural {SHORT} --out r/natural-seed3 --seed 3")
    holdfast_train("digits/madry --init natural --out r/madry-seed3 --seed 3 --quiet --train.steps 1")
    config = make_config("digits/madry", overrides=[("train.init", "natural")])
    command = "train it first: holdfast train digits/natural:cpu --seed 0 --out runs/digits/natural"
    with pytest.raises(InputError, match=rf"none at natural or r/natural or runs/digits/natural; {command}"):
        start_of(config, Path("r/madry"))  # another seed starts from its own
    before, after = (
        read_json(Path("r", name, "provenance.json"))["training"] for name in ("natural-seed3", "madry-seed3")
    )
    assert after["start"] == before
    assert total_cost(after)["example_passes"] == before["example_passes"] + after["example_passes"]
    assert total_cost(after)["seconds"] == pytest.approx(before["seconds"] + after["seconds"])


def test_a_missing_start_run_is_trained_after_saying_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of `train --help`: a preset that starts from another, with `--out` anywhere."""
    short = {"digits/natural:cpu": 3}
    real = run.make_start_config

    def few_steps(preset: str, changes: list[tuple[str, str]]) -> RunConfig:
        return real(preset, [*changes, ("train.steps", str(short[preset]))])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "make_start_config", few_steps)
        holdfast_train("digits/madry --init natural --out runs/a --seed 2 --quiet --train.steps 2")
    out = capsys.readouterr().out
    assert "starts from digits/natural:cpu, missing at runs/digits/natural-seed2; training it first" in out
    started = Path("runs/digits/natural-seed2")
    assert config_from_file(started / "config.toml").seed == 2
    assert read_json(Path("runs/a/provenance.json"))["training"]["start"]["steps"] == 3
    holdfast_train("digits/madry --init natural --out runs/b --seed 2 --quiet --train.steps 2")
    assert "training it first" not in capsys.readouterr().out  # it is there now


def test_weights_of_another_network() -> None:
    model = build_model(make_config("digits/erar").model, seed=0)
    bare = {name: value + 1 for name, value in model.net.state_dict().items()}
    safetensors.torch.save_file(bare, "bare.safetensors")
    put_weights(model, Path("bare.safetensors"))
    assert all(torch.equal(value, bare[name]) for name, value in model.net.state_dict().items())
    safetensors.torch.save_file({"other": torch.zeros(1)}, "other.safetensors")
    with pytest.raises(DataError, match=r"features\.0\.bias.*1 left over \(other\)"):
        put_weights(model, Path("other.safetensors"))
    bare["head.3.bias"] = torch.zeros(7)
    safetensors.torch.save_file(bare, "bare.safetensors")
    with pytest.raises(DataError, match=r"1 of another shape \(head\.3\.bias is 7 in the file and 10 .*num_classes=7"):
        put_weights(model, Path("bare.safetensors"))


OWN = """
import torch
from torch import nn

def build(num_classes, hidden=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))

def nothing():
    return 3
"""


def test_an_own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_network.py").write_text(OWN)
    path = list(sys.path)
    line = "digits/madry --train.steps 2 --quiet --model own_network:build --model.options.hidden 6"
    holdfast_train(f"{line} --model.mean 0.5 --model.std 0.25 --out a")
    assert sys.path == path
    with pytest.raises(InputError, match=r"if you trust it, pass network='own_network:build'"):
        load("a")
    model = load("a", network="own_network:build")
    assert model.net[1].out_features == 6
    assert model.mean.tolist() == [0.5]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(load("a", network=net)(x), model(x))
    holdfast_train(f"{line} --out b --init a --model.mean 0.5 --model.std 0.25 --train.steps 1")
    for name, message in (("own_network:nothing", "return a torch.nn.Module, got int"), ("own:build", "No module")):
        with pytest.raises(InputError, match=message):
            holdfast_train(f"digits/madry --model {name}")
    config = make_config("digits/madry", overrides=[("model.mean", "0.5")])
    with pytest.raises(InputError, match="that is a Classifier"):
        holdfast_classifier(config)


def holdfast_classifier(config) -> None:
    Path("wrapped_network.py").write_text(
        "from holdfast import Classifier\nfrom torch import nn\n"
        "def build(): return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))\n"
    )
    own = config.model.model_copy(update={"name": "wrapped_network:build"})
    assert isinstance(build_model(own.model_copy(update={"mean": None}), seed=0).net, nn.Sequential)
    build_model(own, seed=0)


def test_results_in_half_precision() -> None:
    holdfast_train(f"digits/natural {SHORT} --out a")
    half = {name: value.half() for name, value in load("a").state_dict().items()}
    safetensors.torch.save_file(half, f"a/{WEIGHTS}")
    model = load("a")
    assert isinstance(model, Classifier)
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value.half(), half[name])


def test_data_of_a_config() -> None:
    changes = [("data.limit", "50"), ("data.transforms", "equalize"), ("data.train_transforms", "balance:to=200")]
    config = make_config("digits/madry", overrides=changes)
    data, test = load_data(config, "train"), load_data(config, "test")
    assert (len(data), len(test)) == (50, 360)
    assert "balance(to=200, seed=0) | equalize" in data.source
    assert "balance" not in test.source


def test_own_data(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    x = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez("mine.npz", x=x, y=np.arange(40) % 4)
    line = (
        "digits/natural --data mine.npz --data.options.holdout 0.25 --data.options.layout NHW --train.steps 2 --quiet"
    )
    holdfast_train(f"{line} --train.batch_size 10 --out a")
    config = config_from_file(Path("a/config.toml"))
    assert (config.model.num_classes, config.dataset) == (4, "mine")
    assert load("a")(torch.rand(2, 1, 8, 8)).shape == (2, 4)
    with pytest.raises(InputError, match=r"model.num_classes >= 4.*got 2"):
        holdfast_train(f"{line} --out b --model.num_classes 2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "a preset, --config FILE or --out RUN --resume"),
        ("digits/earr", "the nearest is digits/erar"),
        ("digits/erar --train.stpes 3", "the nearest is train.steps"),
        ("digits/erar --method.settings.epz 3", "the nearest is method.settings.eps"),
        ("digits/erar --model.options.deep 3", "an option of digits-cnn"),
        ("digits/erar --model digits-cn", "the nearest name is 'digits-cnn'"),
        ("digits/erar --device gpu", "a device this machine has"),
        ("digits/erar --data.options.train 3", "options of digits"),
        ("--out nowhere --resume", "check the path"),
    ],
)
def test_what_cannot_start(line: str, message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        holdfast_train(line)
    assert not Path("runs").exists()


def test_many_processes_need_the_mean() -> None:
    config = make_config("digits/natural", overrides=[("method.settings.reduction", "sum")])
    assert prepare(config).objective.reduction == "sum"
    with pytest.raises(InputError, match="reduction = 'mean' with several processes"):
        prepare(config, processes=Processes(0, 2))


def test_optimizers_and_schedules() -> None:
    flower = make_config("flower17/erar").train.plain()
    config = make_config("digits/natural")
    config = config.model_copy(update={"train": type(config.train).model_validate(flower)})
    ready = prepare(config)
    assert [ready.schedule(step) for step in (0, 1500, 70_000)] == [1e-4, 1e-3, 1e-4]
    groups = ready.optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [2e-4, 0.0]
    assert {group["momentum"] for group in groups} == {0.9}
    assert groups[0]["lr"] == 1e-4
    for kind, last in (("constant", 1e-3), ("cosine", 0.0)):
        changes = [("train.schedule.kind", kind), ("train.lr", "1e-3")]
        schedule = prepare(make_config("digits/natural", overrides=changes)).schedule
        assert (schedule(0), schedule(400)) == (1e-3, last)


def test_run_training_returns_what_it_made() -> None:
    config = make_config("digits/natural", overrides=[("train.steps", "3"), ("train.keep_best_by", "-total")])
    done = run_training(config, "a", progress=False)
    assert (done.result.step, done.run_dir, done.config.preset) == (3, Path("a"), "digits/natural:cpu")
    assert done.result.best is not None
    assert torch.isfinite(done.model(torch.rand(1, 1, 8, 8))).all()


SCRIPT = """
from pathlib import Path
from holdfast.commands.train import train
if __name__ == "__main__":
    changes = (("train.steps", "4"), ("train.batch_size", "21"), ("train.device", "cpu"))
    train("digits/madry", out=Path("two"), quiet=True, overrides=changes)
"""


def test_two_processes_are_one() -> None:
    holdfast_train("digits/madry --train.steps 4 --train.batch-size 21 --out one --quiet")
    Path("both.py").write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "both.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(launch, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("wrote two") == 1
    one, two = load("one").state_dict(), load("two").state_dict()
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], atol=1e-5, rtol=1e-5)


def test_half_weights_are_half_the_size_and_load_as_floats() -> None:
    holdfast_train("digits/natural --quiet --train.steps 2 --train.half_weights true --out half")
    stored = safetensors.torch.load_file(Path("half", WEIGHTS))
    assert {value.dtype for value in stored.values()} == {torch.float16}
    model = load("half")
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}
    assert all(torch.equal(value, stored[name].float()) for name, value in model.state_dict().items())


def test_runs_on_own_data_get_a_folder_of_their_own(tmp_path: Path) -> None:
    """`train.init` looks for runs of the preset in runs/DATASET/METHOD: a network of other data must not lie there."""
    from holdfast.commands.train import _default_folder, _own_name

    def folder(model: str | None = None, data: str | None = None, seed: int = 0) -> str:
        return str(_default_folder("mnist/madry:cpu", None, seed, False, _own_name("mnist/madry:cpu", model, data)))

    assert folder() == "runs/mnist/madry"
    assert folder(data="some/images/") == "runs/images/madry"
    assert folder(data="photos.npz", seed=2) == "runs/photos/madry-seed2"
    assert folder(model="nets:small") == "runs/mnist-small/madry"
