"""Registry of attacks on explanations, for configs and commands. To add one, write it and add it to `ATTACKS`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.attacks import ExplanationAttack
from holdfast.attribution import make_map
from holdfast.errors import expected
from holdfast.recipes.attacks.ifia import ifia
from holdfast.recipes.attacks.ifia_ensemble import ifia_ensemble
from holdfast.recipes.attacks.strongest import strongest
from holdfast.runs.names import CENTRED_CONTROL, CONTROL, ENSEMBLE, REFERENCE, STRONGEST, TRUE_LOGIT
from holdfast.types import Attribution


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """Settings shared by all attacks of a protocol: budget, steps, k, and the map.

    `map` names a registered map, with options `map_options`; integrated gradients use `ig_steps` points. A
    user-defined `attribution` replaces it. `stuck` is that of `ifia`. The random control takes `control_steps` steps,
    by default `steps`.

    The strongest attack shares `eps`, `eval_k`, `quantize` and the map, whose score is the centred logit for
    "strongest" and the true logit for "strongest-true-logit"; `strongest` holds its other settings, such as `passes`.
    "random-centred" is the random control on the map of "strongest". `ensemble` holds the settings of the ensemble of
    version 0.1.
    """

    eps: float
    steps: int
    k: int
    step_size: float | None = None
    eval_k: int | None = None
    ig_steps: int = 100
    search_ig_steps: int | None = None
    quantize: bool = False
    stuck: str = "random"
    map: str = "ig"
    map_options: Mapping[str, Any] = field(default_factory=dict)
    attribution: Attribution | None = None
    strongest: Mapping[str, Any] = field(default_factory=dict)
    ensemble: Mapping[str, Any] = field(default_factory=dict)
    control_steps: int | None = None

    def explained(self, ig_steps: int | None = None, score: str | None = None) -> Attribution:
        """The map that is attacked and scored; `score` names the score unless the map options do."""
        if self.attribution is not None:
            return self.attribution
        options = dict(self.map_options) if score is None else {"score": score, **self.map_options}
        return make_map(self.map, options, steps=self.ig_steps if ig_steps is None else ig_steps)

    def explained_by_strongest(self, score: str) -> Attribution:
        """The map of the strongest attack, which has its own number of points."""
        return self.explained(self.strongest.get("ig_steps"), score)

    def search(self, kind: str, steps: int | None = None, attribution: Attribution | None = None) -> ExplanationAttack:
        """IFIA of one kind with these settings; `step_size` defaults to 2.5 eps / steps."""
        steps = self.steps if steps is None else steps
        return ifia(
            eps=self.eps,
            step_size=2.5 * self.eps / max(1, steps) if self.step_size is None else self.step_size,
            steps=steps,
            k=self.k,
            eval_k=self.eval_k,
            search_ig_steps=self.search_ig_steps,
            kind=kind,
            attribution=attribution or self.explained(),
            quantize=self.quantize,
            stuck="random" if kind == "random" else self.stuck,
        )


def _ensemble(settings: AttackSettings) -> ExplanationAttack:
    own = dict(settings.ensemble)
    return ifia_ensemble(
        eps=settings.eps,
        k=settings.k,
        eval_k=settings.eval_k,
        quantize=settings.quantize,
        attribution=settings.explained(own.pop("ig_steps", None)),
        **own,
    )


def _strongest(settings: AttackSettings, score: str) -> ExplanationAttack:
    return strongest(
        eps=settings.eps,
        k=settings.k if settings.eval_k is None else settings.eval_k,
        quantize=settings.quantize,
        attribution=settings.explained_by_strongest(score),
        **{name: value for name, value in settings.strongest.items() if name != "ig_steps"},
    )


def _centred_control(settings: AttackSettings) -> ExplanationAttack:
    return settings.search("random", settings.control_steps, settings.explained_by_strongest("centred-logit"))


ATTACKS: dict[str, Callable[[AttackSettings], ExplanationAttack]] = {
    REFERENCE: lambda settings: settings.search("topk"),
    STRONGEST: lambda settings: _strongest(settings, "centred-logit"),
    TRUE_LOGIT: lambda settings: _strongest(settings, "true-logit"),
    ENSEMBLE: _ensemble,
    "ifia-center": lambda settings: settings.search("center"),
    "ifia-cosine": lambda settings: settings.search("cosine"),
    "ifia-soft-topk": lambda settings: settings.search("soft-topk"),
    CONTROL: lambda settings: settings.search("random", settings.control_steps),
    CENTRED_CONTROL: _centred_control,
}
"""Name -> function that builds the attack from the settings."""

DEFAULT = (REFERENCE, STRONGEST, TRUE_LOGIT, CONTROL, CENTRED_CONTROL)
AS_BEFORE = (REFERENCE, ENSEMBLE, CONTROL)
"""The protocol of version 0.1."""


def make_attacks(settings: AttackSettings, names: Iterable[str] = DEFAULT) -> dict[str, ExplanationAttack]:
    """Build the named attacks, all with the same settings.

    >>> list(make_attacks(AttackSettings(eps=0.1, steps=10, k=5)))
    ['ifia-topk', 'strongest', 'strongest-true-logit', 'random', 'random-centred']
    """
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        raise expected(f"attacks to be among {', '.join(ATTACKS)}", got=", ".join(unknown))
    return {name: ATTACKS[name](settings) for name in names}
