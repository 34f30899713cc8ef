"""Settings that depend on the radius eps of training: if only eps is changed, they scale with it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.config.aliases import current_key
from holdfast.config.merge import flat, merge
from holdfast.config.overrides import Override
from holdfast.config.schema import RunConfig
from holdfast.config.values import fraction

EPS = "method.settings.eps"

SCALED = (
    "method.settings.step_size",
    "method.settings.plain_step_size",
    "evaluate.pgd.eps",
    "evaluate.pgd.step_size",
    "evaluate.apgd.eps",
    "evaluate.ifia.eps",
    "evaluate.ifia.step_size",
    "evaluate.ensemble.step_size",
)
"""Keys in the unit of eps: step sizes of the attacks in training, and the attacks of the evaluation."""


def scale_with_eps(
    before: Mapping[str, Any], after: Mapping[str, Any], overrides: Sequence[Override]
) -> dict[str, Any]:
    """`after`, where the overrides are applied to `before`, with the keys of `SCALED` multiplied as eps was.

    Keys that have an override of their own keep it.

    >>> settings = {"method": {"settings": {"eps": 0.3, "step_size": 0.1}}}
    >>> changed = merge(settings, {"method": {"settings": {"eps": 0.03}}})
    >>> scale_with_eps(settings, changed, [("method.settings.eps", "0.03")])
    {'method': {'settings': {'eps': 0.03, 'step_size': 0.01}}}
    """
    old, new = (_number(dict(flat(values)).get(EPS)) for values in (before, after))
    given = _keys(overrides)
    changed = dict(after)
    if EPS not in given or not old or not new or old == new:
        return changed
    for key, value in flat(after):
        if key in SCALED and key not in given and (number := _number(value)) is not None:
            changed = merge(changed, _nested(key, float(f"{number * (new / old):.10g}")))
    return changed


def radius_notes(config: RunConfig, overrides: Sequence[Override], in_file: Sequence[Override] = ()) -> tuple[str, ...]:
    """What a user who changes eps should know: what scaled with it, and steps that are larger than eps.

    `in_file` are the changes of a config file, on which the overrides are put.
    """
    values = dict(flat(config.plain()))
    eps, given = _number(values.get(EPS)), _keys(overrides)
    if EPS not in given:  # an override of eps also scales what the file sets
        given |= _keys(in_file)
    if eps is None:
        return ()
    scaled = [f"{key} = {values[key]:.4g}" for key in SCALED if key in values and key not in given]
    notes = [f"with --{EPS} {eps:.4g}, {', '.join(scaled)}"] if EPS in given and scaled else []
    return (*notes, *large_steps(config.method.settings, option="--method.settings.{} "))


def large_steps(settings: Mapping[str, Any], *, option: str) -> tuple[str, ...]:
    """A question for each step size of a method that is larger than its eps; `option` is how a command sets one.

    >>> large_steps({"eps": 0.1, "step_size": 0.2}, option="--method-args {}=")
    ('--method-args step_size=0.2 is larger than eps = 0.1; did you mean 0.025?',)
    """
    eps = _number(settings.get("eps"))
    steps = {name: _number(settings.get(name)) for name in ("step_size", "plain_step_size")}
    return tuple(
        f"{option.format(name)}{step:.4g} is larger than eps = {eps:.4g}; did you mean {eps / 4:.2g}?"
        for name, step in steps.items()
        if eps and step is not None and step > eps
    )


def _keys(overrides: Iterable[Override]) -> set[str]:
    return {current_key(key.replace("-", "_")) for key, _ in overrides}


def _number(value: Any) -> float | None:
    found = fraction(value)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested
