"""Where a config comes from and goes to: a preset or a file, with changes on top; `config.toml` of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.config.aliases import current_method, current_names
from holdfast.config.merge import flat, merge
from holdfast.config.overrides import Override, apply_overrides
from holdfast.config.presets import preset_values
from holdfast.config.problems import validated
from holdfast.config.radius import scale_with_eps
from holdfast.config.schema import RunConfig
from holdfast.config.toml import read_toml, to_toml
from holdfast.errors import expected


def make_config(preset: str = "", *, file: Path | None = None, overrides: Sequence[Override] = ()) -> RunConfig:
    """The config of a preset or of a file, one of the two, with `overrides` on top.

    An override of method.settings.eps also scales step sizes and the radius of the evaluation, unless they have one;
    so does this key in a file with a `base`.

    >>> make_config("digits/erar", overrides=[("train.steps", "7")]).train.steps
    7
    """
    if bool(preset) == (file is not None):
        got = f"{preset} and {file}" if preset else "neither"
        raise expected("a preset or a config file", got=got, fix="`holdfast presets` lists the presets")
    values = preset_values(preset) if file is None else _file_values(file)
    return validated(RunConfig, scale_with_eps(values, apply_overrides(values, overrides), overrides))


def config_from_file(path: Path) -> RunConfig:
    """The config in a TOML file; with `base = "mnist/erar:cpu"` at its top it only has to say what differs."""
    return make_config(file=path)


def config_text(config: RunConfig) -> str:
    """The config as TOML, every key that is not absent; `config_from_file` reads the same config back."""
    return to_toml(config.plain())


def changes_of_file(path: Path) -> list[Override]:
    """What a config file changes in its `base`, as overrides; nothing if it has none."""
    found = [(key, str(value)) for key, value in flat(_read(path))]
    return found if "base" in dict(found) else []


def _file_values(path: Path) -> dict[str, Any]:
    values = _read(path)
    base = values.pop("base", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise expected("base to be the name of a preset", got=repr(base))
    preset = preset_values(base)
    return scale_with_eps(preset, merge(preset, values), changes_of_file(path))


def _read(path: Path) -> dict[str, Any]:
    return current_method(current_names(read_toml(path)))
