"""Every preset is a whole config that builds its objective, and those of the paper have the paper's values."""

import subprocess
import sys
import tomllib

import pytest
import torch
from torch import nn

import holdfast as hf
from holdfast.commands.presets import diff_presets, list_presets, show_preset
from holdfast.config import (
    TIERS,
    Network,
    RunConfig,
    complete,
    config_text,
    differences,
    find_preset,
    load_preset,
    preset_names,
)
from holdfast.config.problems import validated
from holdfast.data.transforms import parse
from holdfast.errors import InputError
from holdfast.experiment.run import build_model, prepare
from holdfast.recipes import METHODS

NAMES = preset_names()
ABLATIONS = ("cacr-only", "wacr-only", "1-0.7", "0.7-1", "no-nca", "no-base")

# The appendix "Hyperparameters and Attack Configurations", read by hand; budgets of Flower and GTSRB in 1/255.
PAPER = {
    "mnist": {
        "optimizer": "adam", "schedule": "constant", "lr": 1e-4, "batch": 50, "steps": 90_000,
        "attack": (0.3, 40, 0.01), "m": (50, 10), "pgd": (0.3, 100, 0.01), "ifia": (200, 0.3, 0.01, 100), "unit": 1,
    },
    "fashion-mnist": {
        "optimizer": "adam", "schedule": "constant", "lr": 1e-4, "batch": 32, "steps": 100_000,
        "attack": (0.1, 20, 0.01), "m": (50, 10), "pgd": (0.1, 100, 0.01), "ifia": (100, 0.1, 0.01, 100), "unit": 1,
    },
    "flower17": {
        "optimizer": "sgd", "schedule": ((1500, 70_000), (1e-4, 1e-3, 1e-4)), "lr": None, "batch": 16, "steps": 90_000,
        "attack": (8, 7, 2), "m": (50, 5), "pgd": (8, 40, 2), "ifia": (1000, 8, 1, 100), "unit": 255,
    },
    "gtsrb": {
        "optimizer": "sgd", "schedule": ((5000, 70_000), (1e-5, 1e-4, 1e-5)), "lr": None, "batch": 32, "steps": 100_000,
        "attack": (8, 7, 2), "m": (50, 5), "pgd": (8, 40, 2), "ifia": (100, 8, 1, 50), "unit": 255,
    },
}  # fmt: skip

# RAR's public configs: lambda of IG-NORM and IG-SUM-NORM, points in the attack, steps x size, batch, steps, rates.
RAR = {
    "mnist": (1.0, 0.1, 10, (40, 0.01), 50, 100_000, None, 4557077),
    "fashion-mnist": (1.0, 0.1, 10, (20, 0.01), 50, 100_000, None, 4557077),
    "flower17": (0.1, 0.1, 5, (7, 2 / 255), 16, 70_001, (1e-4, 1e-3, 1e-4), 451760341),
    "gtsrb": (1.0, 1.0, 5, (7, 2 / 255), 64, 70_001, (1e-3, 1e-2, 1e-3), 451760341),
}


def settings(name: str) -> dict[str, object]:
    return complete(load_preset(name)).method.settings


@pytest.mark.parametrize("name", NAMES)
def test_every_preset(name: str) -> None:
    """It validates, comes back from TOML, and its method, transforms and label are real."""
    config = complete(load_preset(name))
    assert validated(RunConfig, tomllib.loads(config_text(config))) == config
    objective = METHODS[config.method.name](nn.Linear(2, 2), **config.method.settings)
    assert objective.name == config.method.name
    for text in (*config.data.train_transforms, *config.data.transforms):
        parse(text)
    assert config.label == name.split("/")[1].split(":")[0]
    assert config.preset == name
    assert config.evaluate.pgd is not None
    assert config.evaluate.ifia is not None
    assert config.evaluate.ensemble is not None
    assert config.data.name in hf.data.names()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("digits/")])
def test_digits_presets_run(name: str) -> None:
    ready = prepare(load_preset(name))
    x, y, ids = ready.loader.batch(0)
    output = ready.objective(x[:3], y[:3], hf.make_keys(0, ids[:3]))
    output.total.backward()
    assert torch.isfinite(output.total)
    assert all(p.grad is not None for p in ready.model.parameters())
    peak = round(0.3 * ready.config.train.steps) - 1
    assert ready.schedule(0) < ready.schedule(peak) == pytest.approx(ready.config.train.lr)


def test_networks_of_the_presets() -> None:
    """Each is built with its options; the wide one narrow, to be quick."""
    networks = {config_text_of(load_preset(name).model): load_preset(name).model for name in NAMES}
    assert len(networks) == 13  # five of the cpu tier, also with softplus, and three of the paper
    for network in networks.values():
        name = network.name.replace("wrn-28-10", "wrn-10-1")
        assert build_model(network.model_copy(update={"name": name}), seed=0).net is not None


def config_text_of(network: Network) -> str:
    return repr(network.plain())


@pytest.mark.parametrize("dataset", PAPER)
def test_values_of_the_paper(dataset: str) -> None:
    paper = PAPER[dataset]
    unit = paper["unit"]
    for method in ("natural", "madry", "ig_norm", "ig_sum_norm", "erar"):
        config = load_preset(f"{dataset}/{method}")
        train, pgd, ifia = config.train, config.evaluate.pgd, config.evaluate.ifia
        assert config.preset.endswith(":paper")
        assert (train.optimizer, train.lr, train.batch_size) == (paper["optimizer"], paper["lr"], paper["batch"])
        assert (train.steps, train.warm_up) == (paper["steps"], 0.0)
        schedule = train.schedule
        found = schedule.kind if schedule.kind == "constant" else (schedule.boundaries, schedule.values)
        assert found == paper["schedule"]
        decay = (0.9, 2e-4, False) if train.optimizer == "sgd" else (None, 0.0, False)
        assert (train.momentum, train.weight_decay, train.nesterov) == decay
        eps, steps, size = paper["pgd"]
        assert (pgd.eps, pgd.steps, pgd.step_size) == (eps / unit, steps, size / unit)
        k, eps, size, steps = paper["ifia"]
        assert (ifia.k, ifia.eps, ifia.step_size, ifia.steps) == (k, eps / unit, size / unit, steps)
        assert (ifia.ig_steps, ifia.quantize) == (100, unit == 255)
        chosen = settings(config.preset)
        if method != "natural":
            eps, steps, size = paper["attack"]
            assert (chosen["eps"], chosen["attack_steps"], chosen["step_size"]) == (eps / unit, steps, size / unit)
        if "ig_steps" in chosen:
            assert (chosen["ig_steps"], chosen["attack_ig_steps"]) == paper["m"]
    assert load_preset("mnist/erar").evaluate.ifia.eval_k == 100  # RAR's metric; 200 is for the attack


@pytest.mark.parametrize("dataset", PAPER)
def test_erar_of_the_paper(dataset: str) -> None:
    """Lambda 1 for every term, L1 norm, change of attribution from the black image, the defaults of the recipe."""
    chosen = settings(f"{dataset}/erar")
    plain = {k: v for k, v in chosen.items() if k not in ("eps", "attack_steps", "step_size", "attack_ig_steps")}
    assert plain == {
        "lam": 1.0, "lam_cacr": 1.0, "lam_wacr": 1.0, "ig_steps": 50, "attack_lam": 1.0, "scale": 1.0,
        "change": "difference", "negative": "endpoint", "granularity": "pixel", "size": "l1", "nca": True,
        "base_attribution": True, "reduction": "mean",
    }  # fmt: skip
    units = load_preset(f"{dataset}/erar").model.options
    assert units == ({"init": "paper"} if "mnist" in dataset else {"units_per_stage": 5})


@pytest.mark.parametrize("dataset", ["digits", "mnist", "fashion-mnist", "flower17"])
def test_ablations(dataset: str) -> None:
    base = load_preset(f"{dataset}/erar").plain()
    found = {name: differences(base, load_preset(f"{dataset}/erar-{name}").plain()) for name in ABLATIONS}
    for changes in found.values():
        changes.pop("preset")
    of = "method.settings."
    assert found == {
        "cacr-only": {of + "lam_wacr": (1.0, 0.0)},
        "wacr-only": {of + "lam_cacr": (1.0, 0.0)},
        "1-0.7": {of + "lam_wacr": (1.0, 0.7)},
        "0.7-1": {of + "lam_cacr": (1.0, 0.7)},
        "no-nca": {of + "nca": (None, False)},
        "no-base": {of + "base_attribution": (None, False)},
    }


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist", "flower17"])
@pytest.mark.parametrize("name", ["erar", "erar-cacr-only"])
def test_the_scaled_rows_differ_from_theirs_by_the_scale_alone(dataset: str, name: str) -> None:
    base, scaled = (load_preset(f"{dataset}/{name}{ending}:cpu").plain() for ending in ("", "-scale-100"))
    found = differences(base, scaled)
    found.pop("evaluate.attacks", None)  # the full row is also attacked on the map of the true logit
    assert found == {
        "preset": (f"{dataset}/{name}:cpu", f"{dataset}/{name}-scale-100:cpu"),
        "method.settings.scale": (1.0, 100.0),
    }


@pytest.mark.parametrize("dataset", RAR)
def test_values_of_rar(dataset: str) -> None:
    norm, sum_norm, points, attack, batch, steps, rates, seed = RAR[dataset]
    for method, lam in (("ig_norm", norm), ("ig_sum_norm", sum_norm)):
        config, chosen = load_preset(f"{dataset}/{method}:rar-config"), settings(f"{dataset}/{method}:rar-config")
        assert (chosen["lam"], chosen["ig_steps"], chosen["attack_ig_steps"]) == (lam, 50, points)
        assert ((chosen["attack_steps"], chosen["step_size"]), chosen["reduction"]) == (attack, "sum")
        assert (config.train.batch_size, config.train.steps, config.seed) == (batch, steps, seed)
        assert config.train.schedule.values == rates
        assert config.evaluate.pgd.steps == attack[0]
    natural, madry = (load_preset(f"{dataset}/{method}:rar-config") for method in ("natural", "madry"))
    assert natural.train.steps == (25_000 if "mnist" in dataset else steps)
    assert settings(madry.preset)["reduction"] == ("sum" if "mnist" in dataset else "mean")
    if rates:
        assert natural.train.schedule.values == madry.train.schedule.values == (1e-3, 1e-2, 1e-3)
        assert natural.model.options["units_per_stage"] == {"flower17": 1, "gtsrb": 2}[dataset]


def test_released_code() -> None:
    """The rows in which the authors' Flower code differs from the paper."""
    changed = differences(load_preset("flower17/erar").plain(), load_preset("flower17/erar:released-code").plain())
    changed.pop("preset")
    assert {key: after for key, (_, after) in changed.items()} == {
        "seed": 451760341,
        "model.options.units_per_stage": 1,
        "method.settings.lam": 0.1,
        "method.settings.attack_lam": 0.1,
        "method.settings.ig_steps": 20,
        "method.settings.change": "loss-path",
        "method.settings.negative": "per-point",
        "method.settings.wacr_granularity": "entry",
        "method.settings.reduction": "sum",
        "train.batch_size": 1,
        "train.steps": 100_000,
        "train.schedule.boundaries": [500, 60_000],
        "train.schedule.values": [1e-4, 3e-4, 1e-4],
        "evaluate.pgd.steps": 7,
    }


@pytest.mark.parametrize("dataset", ["flower17-wrn", "gtsrb-wrn"])
def test_wide_network(dataset: str) -> None:
    """ART's public CIFAR settings; the normalisation of its loss is that of the network."""
    for method in ("natural", "madry", "art", "erar"):
        config = load_preset(f"{dataset}/{method}")
        train = config.train
        assert (train.optimizer, train.momentum, train.nesterov, train.weight_decay) == ("sgd", 0.9, True, 2e-4)
        assert (train.batch_size, train.schedule.values) == (234, (0.1, 0.01, 0.001))
        assert [b / train.steps for b in train.schedule.boundaries] == [0.5, 0.8]
        assert (config.model.name, config.model.options) == ("wrn-28-10", {"dropout": 0.1})
        assert config.evaluate == load_preset(f"{config.dataset}/erar").evaluate
    art, model = settings(f"{dataset}/art"), load_preset(f"{dataset}/art").model
    assert (art["eps"], art["attack_steps"], art["step_size"]) == (8 / 255, 3, 5 / 255)
    assert (art["weight"], art["beta"]) == (0.5, 50.0)
    assert ((art["mean"],), (art["std"],)) == (model.mean, model.std)


@pytest.mark.parametrize(("dataset", "side"), [("flower17-wrn", 64), ("gtsrb-wrn", 32)])
def test_wide_network_on_two_cores(dataset: str, side: int) -> None:
    """The same shares of the pixels as in the paper, and the normalisation of ART's loss is that of the network."""
    config, paper = load_preset(f"{dataset}/art:cpu"), load_preset(f"{dataset}/art:paper")
    full = 128 if side == 64 else 32
    assert config.data.transforms == (("resize:to=64",) if side == 64 else ("equalize",))
    assert (config.model.name, config.model.options) == ("wrn-16-2", {"dropout": 0.1})
    for k in ("k", "eval_k"):
        assert getattr(config.evaluate.ifia, k) / side**2 == getattr(paper.evaluate.ifia, k) / full**2
    art = settings(config.preset)
    assert art["k"] / side**2 == settings(paper.preset)["k"] / full**2
    assert (
        ((art["mean"],), (art["std"],)) == (config.model.mean, config.model.std) == (paper.model.mean, paper.model.std)
    )


def test_small_machines() -> None:
    """The recipe that is measured on two cores."""
    config = load_preset("mnist/madry:cpu")
    assert (config.train.lr, config.train.steps, config.train.warm_up) == (7e-4, 2600, 0.3)
    assert (config.train.schedule.kind, config.model.options) == ("one-cycle", {"init": "torch"})
    assert config.method.settings == {"eps": 0.3, "attack_steps": 8, "step_size": 0.075}


def test_names() -> None:
    assert find_preset("mnist/erar") == "mnist/erar:paper"
    assert find_preset("digits/erar-plus") == "digits/erar_plus:cpu"
    assert find_preset("mnist/igr") == "mnist/igr:cpu"
    assert {name.split(":")[1] for name in NAMES} == set(TIERS)
    assert len(set(NAMES)) == len(NAMES)
    for wrong, right in (("mnist/earr", "mnist/erar"), ("minst/erar:cpu", "mnist/erar:cpu"), ("erar", "")):
        with pytest.raises(InputError, match=f"got '{wrong}'; the nearest is {right}.*holdfast presets"):
            load_preset(wrong)
    with pytest.raises(InputError, match="the nearest is digits/erar:cpu"):
        load_preset("digits/erar:paper")


def test_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    list_presets()
    listed = capsys.readouterr().out
    assert all(name.split(":")[0] in listed for name in NAMES)
    assert all(tier in listed for tier in TIERS)
    list_presets("mnist")
    assert "flower17" not in capsys.readouterr().out
    with pytest.raises(InputError, match="the nearest is mnist"):
        list_presets("mnits")
    diff_presets("mnist/erar:paper", "mnist/erar:cpu")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["train.steps", "90000", "364"] in lines
    assert ["evaluate.limit", "-", "150"] in lines
    assert [line[0] for line in lines if line[0].endswith(".eps")] == ["evaluate.apgd.eps"]  # only there is it new
    diff_presets("mnist/erar", "mnist/erar:paper")
    assert "have the same settings" in capsys.readouterr().out
    show_preset("mnist/erar")
    assert tomllib.loads(capsys.readouterr().out)["train"]["steps"] == 90_000


def test_names_are_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    list_presets()
    listed = capsys.readouterr().out
    assert all(name.split(":")[0] in listed.split() for name in NAMES)
    assert "…" not in listed


def test_commands_need_no_torch() -> None:
    code = """
import sys
from holdfast.commands.presets import diff_presets, list_presets
list_presets(), diff_presets("mnist/erar:paper", "mnist/erar:cpu")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
