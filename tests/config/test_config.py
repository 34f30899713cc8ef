"""The config refuses what it does not know, comes back from TOML bit for bit, and is typed on the command line."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.config import (
    RunConfig,
    apply_overrides,
    changes_of_file,
    complete,
    config_from_file,
    config_text,
    differences,
    load_preset,
    make_config,
    merge,
    radius_notes,
    split_overrides,
)
from holdfast.config.problems import keys, table, validated
from holdfast.config.toml import to_toml
from holdfast.errors import DataError, InputError

PLAIN = load_preset("flower17/erar").plain()
SECTIONS = ["", *(name for name, kind in keys(RunConfig).items() if table(kind))]
WORDS = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
SCALARS = st.booleans() | NUMBERS | st.text()
NESTED = st.recursive(
    st.dictionaries(st.text(), SCALARS | st.lists(SCALARS, max_size=3), max_size=4),
    lambda inner: st.dictionaries(st.text(), inner | SCALARS, max_size=3),
    max_leaves=6,
)


def override(key: str, text: str, preset: str = "flower17/erar") -> RunConfig:
    return make_config(preset, overrides=[(key, text)])


def nested(section: str, values: dict[str, object]) -> dict[str, object]:
    for part in reversed(section.split(".") if section else []):
        values = {part: values}
    return values


@given(st.sampled_from(SECTIONS), WORDS, SCALARS)
def test_an_unknown_key_is_refused_with_the_nearest(section: str, word: str, value: object) -> None:
    known = keys(RunConfig)
    name = f"{section}.{word}" if section else word
    if name in known:
        return
    with pytest.raises(InputError) as refusal:
        validated(RunConfig, merge(PLAIN, nested(section, {word: value})))
    text = str(refusal.value)
    assert f"got {word!r}; the nearest is " in text
    best = text.split("the nearest is ")[1].split("\n")[0].removesuffix(".")
    assert best in known or best.removesuffix(f".{word}") in known  # or inside the open table of settings


@given(NESTED)
def test_toml_comes_back_exactly(values: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(values)) == values


@given(NUMBERS)
def test_numbers_keep_their_type(number: float) -> None:
    back = tomllib.loads(to_toml({"a": {"b": [number]}}))["a"]["b"][0]
    assert (type(back), repr(back)) == (type(number), repr(number))


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("train.stepz", "3", r"a key of \[train\] .* got 'stepz'; the nearest is train.steps"),
        ("trian.steps", "3", "a top-level key .* got 'trian'; the nearest is train"),
        ("evaluate.pgd.epz", "1", r"a key of \[evaluate.pgd\] .* the nearest is evaluate.pgd.eps"),
        ("method.eps", "1", "the nearest is method.settings.eps"),
        ("train.seed", "1", "the nearest is seed"),
        ("train.steps", "many", r"train.steps to be a whole number, got 'many' \(str\)"),
        ("train.steps", "5.0", r"train.steps to be a whole number, got 5.0 \(float\)"),
        ("train.steps", "true", r"train.steps to be a whole number, got True \(bool\)"),
        ("train.steps", "0", "train.steps to be greater than or equal to 1, got 0"),
        ("train.warm_up", "1.5", "train.warm_up to be less than or equal to 1"),
        ("train.weight_decay", "nan", "train.weight_decay to be a finite number"),
        ("train.amp", "1", "train.amp to be true or false, got 1"),
        ("train.optimizer", "sdg", "train.optimizer to be 'adam' or 'sgd', got 'sdg'"),
        ("train.optimizer", "adam", "momentum and nesterov only with optimizer = 'sgd'"),
        ("train.lr", "1e-3", "lr, but not with a piecewise schedule"),
        ("train.schedule.kind", "constant", "give lr"),
        ("train.schedule.rise", "0.5", "keys of a piecewise schedule .* got rise"),
        ("train.schedule.values", "none", "boundaries and values of a piecewise schedule"),
        ("train.steps.x", "1", "train.steps to be a whole number"),
        ("data.options", "3", "data.options to be a table, got 3"),
        ("data.options.a.b", "3", "data.options.a to be a number, text, true or false, or a list"),
        ("data.name", "none", "a value for data.name, got none"),
        ("seed", "-1", "seed to be greater than or equal to 0"),
    ],
)
def test_bad_values(key: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        override(key, text)


def test_all_problems_are_told() -> None:
    with pytest.raises(InputError, match=r"problems:\n  expected a key of \[data\] .*\n  expected train.steps"):
        make_config("digits/erar", overrides=[("train.steps", "x"), ("data.nmae", "x")])


def test_frozen() -> None:
    config = load_preset("digits/erar")
    with pytest.raises(ValidationError):
        config.train.steps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("train.steps", "500", 500),
        ("train.weight_decay", "1", 1.0),
        ("train.weight_decay", "1/255", 1 / 255),
        ("train.amp", "true", True),
        ("train.max_grad_norm", "1e-1", 0.1),
        ("train.init", "500", "500"),
        ("data.limit", "none", None),
        ("data.transforms", "balance:to=10,seed=3", ("balance:to=10,seed=3",)),
        ("data.transforms", '["equalize", "balance"]', ("equalize", "balance")),
        ("train.schedule.values", "1,2,8/4", (1.0, 2.0, 2.0)),
        ("train.schedule.boundaries", "[5, 6]", (5, 6)),
        ("model.mean", "0.5", (0.5,)),
        ("model.mean", "[0.5, 1, 51/255]", (0.5, 1.0, 0.2)),
        ("model.std", "0.5,1,51/255", (0.5, 1.0, 0.2)),
        ("model.image_size", "8,16", (8, 16)),
        ("evaluate.ensemble", "none", None),
        ("method.settings.eps", "4/255", 4 / 255),
        ("method.settings.change", "path", "path"),
        ("method.settings.nca", "false", False),
    ],
)
def test_overrides_are_typed(key: str, text: str, value: object) -> None:
    found: object = override(key, text)
    for part in key.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert (found, type(found)) == (value, type(value))


def test_words_of_the_command_line() -> None:
    words = ["--train.steps", "5", "a/b", "--train.amp", "--out", "x.y", "--data.limit=7", "--train.lr", "-1", "--a.b"]
    rest, overrides = split_overrides([*words, "--train.batch-size", "3"])
    assert rest == ["a/b", "--out", "x.y"]
    assert dict(overrides) == {
        "train.steps": "5",
        "train.amp": "true",
        "data.limit": "7",
        "train.lr": "-1",
        "a.b": "true",
        "train.batch-size": "3",
    }
    assert make_config("digits/erar", overrides=[("train.batch-size", "3")]).train.batch_size == 3


def test_another_network_or_dataset_clears_the_options_of_the_one_before() -> None:
    changes = [("model.options.depth", "3"), ("model.name", "mine:build"), ("data.name", "images")]
    config = make_config("mnist/erar", overrides=changes)
    assert config.model.options == {"depth": 3}
    assert config.data.options == {}
    assert (config.dataset, config.label) == ("images", "erar")
    assert make_config("mnist/erar", overrides=[("data.name", "mnist")]).data.options == {"train": 55000}


def test_labels() -> None:
    assert load_preset("mnist/erar-no-base").label == "erar-no-base"
    assert load_preset("digits/erar_plus").label == "erar_plus"
    assert load_preset("flower17-wrn/erar").dataset == "flower17"
    assert override("method.name", "erar", "mnist/erar_plus").label == "erar"
    assert override("data.name", "folder/photos.npz").dataset == "photos"


def test_a_config_file(tmp_path: Path) -> None:
    config = override("train.init", 'odd "path"\t\\ü', "digits/erar")
    (tmp_path / "config.toml").write_text(config_text(config), encoding="utf-8")
    assert config_from_file(tmp_path / "config.toml") == config
    (tmp_path / "mine.toml").write_text('base = "mnist/erar:cpu"\nseed = 3\n[train]\nsteps = 5\n')
    mine = make_config(file=tmp_path / "mine.toml", overrides=[("seed", "4")])
    changed = differences(load_preset("mnist/erar:cpu").plain(), mine.plain())
    assert changed == {"seed": (0, 4), "train.steps": (364, 5)}


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    for text, error in (("a = ", "correct the file"), ("base = 3", "name of a preset"), ("seed = 'x'", "problems")):
        file.write_text(text)
        with pytest.raises((DataError, InputError), match=error):
            config_from_file(file)
    with pytest.raises(DataError, match="check the path"):
        config_from_file(tmp_path / "none.toml")
    with pytest.raises(InputError, match="a preset or a config file, got neither"):
        make_config()
    with pytest.raises(InputError, match="digits/erar and"):
        make_config("digits/erar", file=file)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("method.settings.epz", "1", r"a key of \[method.settings\] .* got 'epz'; the nearest is method.settings.eps"),
        ("method.settings.eps", "far", "method.settings.eps to be a number, got 'far'"),
        ("method.settings.eps", "none", "a value for method.settings.eps"),
        ("method.settings.attack_steps", "1.5", "method.settings.attack_steps to be a whole number"),
        ("method.name", "erar-plus", "method.name among .* the nearest is 'erar_plus'"),
    ],
)
def test_settings_are_those_of_the_recipe(key: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        complete(override(key, text))


def test_natural_has_nearly_no_settings() -> None:
    with pytest.raises(InputError, match=r"\(reduction\), got 'eps'; the nearest is method.settings.reduction"):
        complete(override("method.settings.eps", "1", "mnist/natural"))


def test_complete_writes_the_defaults_down() -> None:
    config = complete(override("method.settings.eps", "1", "digits/madry"))
    first_layer = {"dead_zone": 0.0, "filter_spread": 0.0}
    settings = {"eps": 1.0, "attack_steps": 5, "step_size": 0.4, "reduction": "mean"} | first_layer
    assert config.method.settings == settings
    assert isinstance(config.method.settings["eps"], float)
    assert complete(config) == config


@pytest.mark.parametrize("depth", [60, 500, 100_000])
def test_lists_in_lists_are_refused_and_not_followed_to_the_end_of_the_stack(depth: int) -> None:
    with pytest.raises(InputError, match=r"train\.steps"):
        make_config("digits/natural", overrides=[("train.steps", "[" * depth + "]" * depth)])


def test_overrides_leave_the_values_alone() -> None:
    before = load_preset("digits/erar").plain()
    apply_overrides(before, [("train.steps", "1"), ("train.schedule.kind", "constant"), ("data", "none")])
    assert before == load_preset("digits/erar").plain()


def test_no_torch() -> None:
    code = "import sys, holdfast.config as c; c.make_config('mnist/erar'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_step_sizes_and_the_evaluation_scale_with_eps() -> None:
    config = make_config("digits/madry", overrides=[("method.settings.eps", "0.05")])
    assert config.method.settings["step_size"] == pytest.approx(0.02)
    assert config.evaluate.pgd is not None
    assert config.evaluate.ifia is not None
    assert (config.evaluate.pgd.eps, config.evaluate.ifia.eps) == (0.05, 0.05)
    assert config.evaluate.pgd.step_size == pytest.approx(0.01 / 3)


def test_keys_that_are_set_do_not_scale_with_eps() -> None:
    changes = [("method.settings.eps", "0.05"), ("method.settings.step_size", "0.1"), ("evaluate.ifia.eps", "0.15")]
    config = make_config("digits/madry", overrides=changes)
    assert config.method.settings["step_size"] == 0.1
    assert config.evaluate.ifia is not None
    assert config.evaluate.ifia.eps == 0.15
    scaled, large = radius_notes(config, changes)
    assert "evaluate.pgd.eps = 0.05" in scaled
    assert "evaluate.ifia.eps" not in scaled
    assert "step_size 0.1 is larger than eps = 0.05" in large


def test_eps_in_a_file_scales_as_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = 'base = "digits/madry"\n[method.settings]\neps = "1/20"\n'
    file.write_text(text)
    config = make_config(file=file)
    assert config == make_config("digits/madry", overrides=[("method.settings.eps", "1/20")])
    assert config.evaluate.ifia is not None
    assert config.evaluate.ifia.eps == 0.05
    (note,) = radius_notes(config, [], changes_of_file(file))
    assert note.startswith("with --method.settings.eps 0.05, method.settings.step_size = 0.02, evaluate.pgd.eps = 0.05")
    file.write_text(f"{text}step_size = 0.1\n[evaluate.ifia]\neps = 0.15\n")
    config = make_config(file=file)
    assert config.evaluate.ifia is not None
    assert (config.method.settings["step_size"], config.evaluate.ifia.eps) == (0.1, 0.15)
    assert "step_size 0.1 is larger than eps = 0.05" in radius_notes(config, [], changes_of_file(file))[1]
    whole = tmp_path / "config.toml"
    whole.write_text(config_text(config))  # a whole config is taken as it is
    assert make_config(file=whole) == config
    assert changes_of_file(whole) == []
    twice = [("method.settings.eps", "0.1")]  # scales what the file sets, too
    assert make_config(file=file, overrides=twice).method.settings["step_size"] == 0.2
    assert (
        "method.settings.step_size = 0.2"
        in radius_notes(make_config(file=file, overrides=twice), twice, changes_of_file(file))[0]
    )


def test_without_another_eps_nothing_scales_and_nothing_is_noted() -> None:
    config = make_config("digits/madry", overrides=[("train.steps", "3")])
    assert config.method.settings["step_size"] == 0.06
    assert radius_notes(config, [("train.steps", "3")]) == ()
