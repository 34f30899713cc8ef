"""The settings of an audit, and the evaluation protocol that follows from them."""

from dataclasses import dataclass, replace

from holdfast.attacks.base import ExplanationAttack
from holdfast.attribution import make_map
from holdfast.attribution.registry import LAYERED, check_layer
from holdfast.config import check_eps
from holdfast.data.dataset import Dataset
from holdfast.errors import expected
from holdfast.evaluation.protocol import EvaluationProtocol
from holdfast.recipes import AttackSettings, apgd_pair, make_attacks, pgd
from holdfast.runs.names import CONTROL, CONTROLS, REFERENCE, STRONGEST, TRUE_LOGIT, attack_of, on_map
from holdfast.runs.verdict import decisive
from holdfast.types import Attribution

PANELS = 3
"""Examples kept as pictures besides the worst: the first ones, which are the same for every network."""

SHARES = {STRONGEST: 0.56, TRUE_LOGIT: 0.3}
"""Parts of `passes` for the strongest attack on the two maps; the rest is for noise, accuracy and PGD."""

FIRST_IMAGES, LARGE_IMAGE = 2, 128 * 128
"""Images of the first batch if they have at least so many pixels: its rows come after minutes, not after a quarter of
an hour. Two images fill a pass less well than 16, which adds about 3 % to an audit of 16 images."""

CONTROL_STEPS = 6
"""Random perturbations per image that the control tries."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings of an audit: the threat model, the explanation and the strength of the attacks.

    `eps` is the largest change per pixel (pixels are in [0, 1]). `k` is the number of top pixels that are compared; the
    default is a tenth of the pixels. Accuracy is measured on a sample of `accuracy_limit` images, and under PGD on
    `limit` images; `apgd` adds Auto-PGD on the cross-entropy and on the difference of logits ratio. `map` names the
    explanation (`holdfast.attribution.MAPS`); `attribution` replaces it by an attribution object of your own. `maps`
    replaces both by several, names or objects, which are compared on the same images; each gets the same passes.
    `layer` names the layer of Grad-CAM and Grad-CAM++; by default they choose it.

    The audit runs the strongest attack on the map of the centred logit, which decides, and on that of the true logit,
    and random noise as the control. `passes` is the budget in example-passes per image for all of them together. With
    `strong=False` it runs the reference attack of the papers (`ifia-topk`) with `steps` steps instead. `attacks` lists
    the attacks to run (`holdfast.recipes.ATTACKS`). Maps are scored with `ig_steps` points; inside a search, with
    `search_ig_steps`.

    >>> AuditSettings(eps=4 / 255, limit=16).map
    'ig'
    >>> AuditSettings(maps=("ig", "gradcam")).attack_names
    ('strongest', 'strongest-true-logit', 'random', 'strongest:gradcam', 'random:gradcam')
    """

    eps: float = 8 / 255
    passes: int = 2000
    steps: int = 50
    k: int | None = None
    ig_steps: int = 30
    search_ig_steps: int = 5
    limit: int | None = 64
    accuracy_limit: int | None = 1000
    apgd: bool = False
    strong: bool = True
    batch_size: int = 16
    seed: int = 0
    map: str = "ig"
    attribution: Attribution | None = None
    attacks: tuple[str, ...] | None = None
    maps: tuple[str | Attribution, ...] = ()
    layer: str | None = None

    def __post_init__(self) -> None:
        check_eps(self.eps)
        for name in ("passes", "ig_steps", "search_ig_steps"):
            if getattr(self, name) < 1:
                raise expected(f"{name} >= 1", got=getattr(self, name))
        if len(names := self.map_names) != len(set(names)):
            raise expected("maps with different names", got=", ".join(names))
        check_layer(self.layer, names)

    @property
    def map_names(self) -> tuple[str, ...]:
        """Names of the maps that are audited; an attribution object is named by its class."""
        return tuple(_map_name(one) for one in self.maps or (self.attribution or self.map,))

    @property
    def by_map(self) -> dict[str, "AuditSettings"]:
        """The settings of each map, as of an audit of this map alone."""
        if not self.maps:
            return {self.map_names[0]: self}
        options = ({"map": one} if isinstance(one, str) else {"attribution": one} for one in self.maps)
        alone = replace(self, maps=(), map="ig", attribution=None, layer=None)
        return {
            name: replace(alone, layer=self.layer if name in LAYERED else None, **option)
            for name, option in zip(self.map_names, options, strict=True)
        }

    @property
    def attack_names(self) -> tuple[str, ...]:
        """Names of the attacks to run. Those on the second and later maps end in the name of the map."""
        (_, first), *others = self.by_map.items()
        more = [on_map(attack, name) for name, one in others for attack in one.own_attacks if attack != TRUE_LOGIT]
        return (*first.own_attacks, *more)

    @property
    def own_attacks(self) -> tuple[str, ...]:
        """The attacks on one map."""
        if self.attacks:
            return self.attacks
        if not self.strong:
            return (REFERENCE, CONTROL)
        # a map of the caller's own has its own score
        return (STRONGEST, TRUE_LOGIT, CONTROL) if self.attribution is None else (STRONGEST, CONTROL)

    @property
    def uses_steps(self) -> bool:
        """Whether an attack takes `steps`; the strongest takes `passes`, and the noise beside it `CONTROL_STEPS`."""
        others = (STRONGEST, TRUE_LOGIT, *(CONTROLS if self.strong else ()))
        return any(attack_of(name) not in others for name in self.attack_names)

    def top_k(self, data: Dataset) -> int:
        """The number of top pixels that are compared on images like those of `data`."""
        _, height, width = data.image_shape
        return max(1, height * width // 10) if self.k is None else self.k


def _map_name(one: str | Attribution) -> str:
    """A registered name, the method of a map of captum, or the class of an attribution object."""
    return one if isinstance(one, str) else getattr(getattr(one, "method", None), "__name__", type(one).__name__)


def number_of_images(data: Dataset, settings: AuditSettings) -> int:
    """How many images of `data` an audit attacks."""
    return len(data) if settings.limit is None else min(settings.limit, len(data))


def protocol_of_audit(settings: AuditSettings, k: int) -> EvaluationProtocol:
    """The attacks of an audit on every map, and what else it measures; `k` is the number of top pixels."""
    attacks: dict[str, ExplanationAttack] = {}
    for place, (name, one) in enumerate(settings.by_map.items()):
        made = _attacks(one, k, settings.attack_names)
        attacks |= {on_map(attack, name): part for attack, part in made.items()} if place else made
    return EvaluationProtocol(
        attacks={name: attacks[name] for name in settings.attack_names},
        pgd=pgd(eps=settings.eps, steps=20),
        apgd=apgd_pair(eps=settings.eps, steps=20) if settings.apgd else (),
        limit=settings.limit,
        pgd_limit=settings.limit,
        apgd_limit=settings.limit,
        accuracy_limit=settings.accuracy_limit,
        panels=PANELS,
        pictured=decisive(settings.attack_names),
        diagnose=8,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )


def _attacks(settings: AuditSettings, k: int, together: tuple[str, ...]) -> dict[str, ExplanationAttack]:
    """The attacks on one map; `together` are the names of all attacks of the audit."""
    explained = explained_map(settings)
    search = settings.search_ig_steps if getattr(explained, "points", 1) > settings.search_ig_steps else None
    strong = {"ig_steps": settings.ig_steps, "judge_points": settings.search_ig_steps}
    centred = decisive(settings.own_attacks) == STRONGEST and settings.attribution is None
    layer = {} if settings.layer is None else {"layer": settings.layer}

    def shared(name: str) -> AttackSettings:
        return AttackSettings(
            eps=settings.eps,
            steps=settings.steps,
            k=k,
            ig_steps=settings.ig_steps,
            map=settings.map,
            # the score of the control is that of the verdict
            map_options=layer | ({"score": "centred-logit"} if centred and name == CONTROL else {}),
            attribution=settings.attribution,
            search_ig_steps=search,
            strongest=strong | {"passes": max(1, round(share_of(name, together) * settings.passes))},
            ensemble={"steps": max(1, settings.steps // 2), "search_ig_steps": search},
            control_steps=CONTROL_STEPS if settings.strong else None,
        )

    return {name: make_attacks(shared(name), [name])[name] for name in settings.own_attacks}


def share_of(name: str, together: tuple[str, ...]) -> float:
    """The part of the passes that one attack gets; without the map of the true logit, the others get both parts."""
    if name == STRONGEST and TRUE_LOGIT not in together:
        return sum(SHARES.values())
    return SHARES.get(name, 1.0)


def budget_of(settings: AuditSettings) -> int | None:
    """Example-passes per image of the whole audit; None if an attack has steps instead of a budget."""
    names = {attack_of(name) for name in settings.attack_names}
    if STRONGEST not in names or names - {STRONGEST, TRUE_LOGIT, CONTROL}:
        return None
    return settings.passes * len(settings.map_names)


def first_batch(data: Dataset) -> int | None:
    """Images of the first batch; None if images are small and it needs no size of its own."""
    _, height, width = data.image_shape
    return FIRST_IMAGES if height * width >= LARGE_IMAGE else None


def explained_map(settings: AuditSettings) -> Attribution:
    """The map that the settings name."""
    return settings.attribution or make_map(settings.map, steps=settings.ig_steps, layer=settings.layer)
