"""Fuzz of what a user types: config files, overrides, the command line."""

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.material import anything, fuzzed, only_holdfast_errors

from holdfast import cli
from holdfast.config import RunConfig, complete, config_from_file, config_text, load_preset, make_config, preset_names
from holdfast.config.problems import keys

TOML = config_text(load_preset("digits/erar")).encode()
SHORT_TOML = b'base = "digits/erar"\nseed = 1\n[train]\nsteps = 5\nlr = "1/255"\n[method.settings]\neps = 0.1\n'
KEYS = sorted(keys(RunConfig))
VALUES = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ("none", "true", "[1, 2]", "[[", "8/255", "1/0", "9" * 5000, "nan", "inf", "[" * 2000, "adam", "-1")
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


@fuzzed("config")
@given(content=st.one_of(anything(TOML), anything(SHORT_TOML)))
def test_config_file(folder: Path, content: bytes) -> None:
    path = folder / "config.toml"
    path.write_bytes(content)
    found = only_holdfast_errors(lambda: complete(config_from_file(path)))
    if isinstance(found, RunConfig):
        path.write_text(config_text(found))
        assert config_from_file(path) == found


@fuzzed("overrides")
@given(
    preset=st.sampled_from(preset_names()) | st.text(max_size=20),
    changes=st.lists(st.tuples(st.sampled_from(KEYS) | st.text(max_size=15), VALUES), max_size=3),
)
def test_overrides(preset: str, changes: list[tuple[str, str]]) -> None:
    only_holdfast_errors(lambda: complete(make_config(preset, overrides=changes)))


NAMES = """
out resume init model data seed device quiet config limit help pgd-limit no-strongest thorough as-before
quality natural diagnose weights passes no-strong
mean std size
split labels eps steps k strong tier methods seeds workers list tables figures vote title root force version
launcher train.steps train.lr method.settings.eps data.name evaluate.ifia.k nothing
"""
FLAGS = (*(f"--{name}" for name in NAMES.split()), "-h", "--", "-x")
WORDS = st.one_of(
    st.sampled_from(FLAGS),
    st.sampled_from(
        ("digits/erar", "digits", "mnist/erar:cpu", "runs/none", ".", "none", "0", "1", "-1", "0.5", "a:b")
    ),
    VALUES,
    st.text(st.characters(), max_size=8),
)
COMMANDS = sorted({*cli.COMMANDS, "data", "nothing", ""})


class Started(cli.HoldfastError):
    """The command got as far as its work, which is not what this test is about."""


@pytest.fixture(scope="module")
def idle() -> None:
    """Every command stops where its work would begin."""

    def start(*_: object, **__: object) -> None:
        raise Started("would start")

    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "holdfast.experiment.run.run_training",
            "holdfast.experiment.measure.measure",
            "holdfast.evaluation.audit.audit",
            "holdfast.commands.progress.run_with_progress",
            "holdfast.bench.cases",
            "holdfast.data.sources.obtain.obtain",
        ):
            patch.setattr(name, start)
        patch.setitem(cli.COMMANDS, "demo", ("holdfast.commands.presets:list_presets", ""))
        yield


@fuzzed("command line")
@given(command=st.sampled_from(COMMANDS), words=st.lists(WORDS, max_size=6))
def test_command_line(idle: None, folder: Path, command: str, words: list[str]) -> None:
    said = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        patch.chdir(folder)
        try:
            code = cli.main([*command.split(), *words])
        except SystemExit as stop:
            code = stop.code
    assert code in (0, 2), said.getvalue()
    assert "Traceback" not in said.getvalue()
    assert code == 0 or said.getvalue()
