"""Audit of a trained classifier: how far a small perturbation can change its saliency maps.

result = holdfast.audit(model, holdfast.data.load("images/", split="all"))
print(result)
"""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.attacks.base import ExplanationAttack
from holdfast.attacks.strongest import StrongestAttack
from holdfast.attribution import make_map
from holdfast.config import check_eps
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.from_torch import as_dataset
from holdfast.engine.checks import check_outputs
from holdfast.engine.modes import evaluating
from holdfast.engine.passes import count_passes
from holdfast.errors import expected
from holdfast.evaluation.audit_result import Audit
from holdfast.evaluation.cost import Clock, fit_images_and_steps
from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.preflight import check_before_attacks
from holdfast.evaluation.protocol import EvaluationProtocol, OnProgress, check_protocol
from holdfast.models import Classifier
from holdfast.models.probe import probe_as_they_are
from holdfast.recipes import AttackSettings, apgd_pair, make_attacks, pgd
from holdfast.report import view_runs, write_report
from holdfast.runs.names import CONTROL, REFERENCE, STRONGEST, TRUE_LOGIT, attack_of, on_map
from holdfast.runs.provenance import without_folders
from holdfast.runs.run import read_run
from holdfast.runs.summary import RunInfo
from holdfast.runs.verdict import decisive
from holdfast.training.distributed import current, pick_device
from holdfast.types import Attribution

PAGE = "report.html"
"""Name of the page in the output folder."""

PANELS = 3
"""Examples kept as pictures besides the worst: the first ones, which are the same for every network."""

PROBE_IMAGES, PROBE_STEPS, PROBE_PASSES = 4, 2, 400
"""What `fit_to_minutes` times."""

SHARES = {STRONGEST: 0.56, TRUE_LOGIT: 0.3}
"""Parts of `passes` for the strongest attack on the two maps; the rest is for noise, accuracy and PGD."""

CONTROL_STEPS = 6
"""Random perturbations per image that the control tries."""

FEWEST_PASSES, FEWEST_STEPS = 600, 5
"""`fit_to_minutes` does not go below these numbers of passes, or of steps of the reference attack, per image."""

SHARE_FOR_ATTACKS = 0.75
"""Part of the time that `fit_to_minutes` plans for the attacks; the rest is for accuracy, checks and the report."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings of an audit: the threat model, the explanation and the strength of the attacks.

    `eps` is the largest change per pixel (pixels are in [0, 1]). `k` is the number of top pixels that are compared; the
    default is a tenth of the pixels. Accuracy is measured on a sample of `accuracy_limit` images, and under PGD on
    `limit` images; `apgd` adds Auto-PGD on the cross-entropy and on the difference of logits ratio. `map` names the
    explanation (`holdfast.attribution.MAPS`); `attribution` replaces it by an attribution object of your own. `maps`
    replaces both by several, names or objects, which are compared on the same images; each gets the same passes.

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

    def __post_init__(self) -> None:
        check_eps(self.eps)
        if self.passes < 1:
            raise expected("passes >= 1", got=self.passes)
        if len(names := self.map_names) != len(set(names)):
            raise expected("maps with different names", got=", ".join(names))

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
        alone = replace(self, maps=(), map="ig", attribution=None)
        return {name: replace(alone, **option) for name, option in zip(self.map_names, options, strict=True)}

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

    def top_k(self, data: Dataset) -> int:
        """The number of top pixels that are compared on images like those of `data`."""
        _, height, width = data.image_shape
        return max(1, height * width // 10) if self.k is None else self.k


def _map_name(one: str | Attribution) -> str:
    """A registered name, the method of a map of captum, or the class of an attribution object."""
    return one if isinstance(one, str) else getattr(getattr(one, "method", None), "__name__", type(one).__name__)


def audit(
    model: nn.Module,
    data: Dataset | Iterable[Any],
    settings: AuditSettings | None = None,
    *,
    labels: str = "given",
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
    notes: Iterable[str] = (),
    model_name: str = "",
    data_name: str = "",
    origin: Mapping[str, Any] | None = None,
    **options: Any,
) -> Audit:
    """Measure how far small perturbations change the maps of `model` on `data`, compared with random noise.

    `data` is a holdfast dataset or loader, a pair (x, y) of tensors or arrays, or a PyTorch DataLoader of (x, y). The
    options are the fields of `AuditSettings`; pass them as keyword arguments or as `settings`. `labels="predicted"`
    explains the predicted class instead of the given label; use it for images without labels. `out` is a folder for
    rows, summary and the page report.html; an interrupted audit resumes from it. `notes` on the network are kept with
    those on data and accuracy.

    `model_name` and `data_name` are how the page calls the network and the data; by default the name of its class and
    of the dataset. `origin` is for the commands that the page recommends: `command`, the words of the command line, and
    for a network of a run directory `network` and `dataset`, their registered names.

    >>> import holdfast as hf
    >>> net = hf.models.build("digits-cnn", seed=0)
    >>> data = hf.data.load("digits", split="test")
    >>> hf.audit(net, data, labels="predicted", eps=0.1, steps=2, ig_steps=3, limit=8, strong=False)
    Audit(DigitsCNN on digits: cannot say, 8 images)
    """
    settings, data = _settings(settings, options), as_dataset(data)
    device = None if device is None else pick_device(str(device))
    network = model if isinstance(model, Classifier) else Classifier(model)
    if labels not in ("given", "predicted"):
        raise expected("labels = 'given' or 'predicted'", got=repr(labels))
    probe_as_they_are(network, to_float(data.x[:2], device))
    if labels == "predicted":
        data = _relabelled(network, data, device)
    k = settings.top_k(data)
    protocol = _protocol(settings, k)
    check_protocol(protocol, data)
    limit = _images(data, settings)
    for one in settings.by_map.values():
        check_before_attacks(network, data.stratified(limit, settings.seed), _explained(one), device)
    named, command = model_name or type(network.net).__name__, tuple((origin or {}).get("command", ()))
    about: dict[str, Any] = {
        "model": without_folders(named),
        "data": without_folders(data_name) or data.name,
        "labels": labels,
        "images": len(data),
        "split": data.split,
        "k": k,
        "settings": _described(settings),
        "told": [*notes, *data.notes, *_small_budget(network, data, settings, protocol, device)],
        **(origin or {}),
        "command": [without_folders(word) for word in command],
    }
    info = RunInfo(
        dataset=about["data"],
        method=about["model"],
        preset="audit",
        seed=settings.seed,
        class_names=data.class_names,
        audit=about,
        maps=settings.map_names,
    )
    try:
        done = evaluate(network, data, protocol, info=info, out=out, device=device, on_progress=on_progress)
    except KeyboardInterrupt:
        write_page(out, info)
        raise
    write_page(out, info)
    return Audit(evaluation=done, settings=settings, k=k, command=command)


def _small_budget(
    network: Classifier,
    data: Dataset,
    settings: AuditSettings,
    protocol: EvaluationProtocol,
    device: torch.device | str | None,
) -> list[str]:
    """A note if `passes` is less than what the strongest attacks take with their fewest steps."""
    x, together = to_float(data.x[:1], device), settings.attack_names
    fewest = [
        attack.fewest_passes(network, x) / _share_of(attack_of(name), together)
        for name, attack in protocol.attacks.items()
        if isinstance(attack, StrongestAttack)
    ]
    kept = math.ceil(max(fewest, default=0))
    if settings.passes >= kept:
        return []
    each = "per image and map" if len(settings.map_names) > 1 else "per image"
    return [
        f"the attacks took their fewest steps and may exceed the budget of {settings.passes:,} passes {each}; "
        f"they keep one of {kept:,} or more"
    ]


def write_page(out: Path | str | None, info: RunInfo | None = None) -> None:
    """Write the page of an audit, or of what there is of one that was interrupted (`info`); none without rows."""
    if not current().leads:
        return
    if out is not None and (Path(out) / "examples.csv").exists() and (run := read_run(out)).examples.rows:
        write_report(view_runs([run], unfinished=info), Path(out) / PAGE)


def _settings(settings: AuditSettings | None, options: dict[str, Any]) -> AuditSettings:
    if settings is not None and options:
        raise expected("settings or options of audit, not both", got=f"settings and {', '.join(options)}")
    names = [field.name for field in fields(AuditSettings)]
    if unknown := [name for name in options if name not in names]:
        raise expected(f"options of audit among {', '.join(names)}", got=", ".join(unknown))
    return settings or AuditSettings(**options)


def _described(settings: AuditSettings) -> dict[str, Any]:
    """The settings for `summary.json`; maps are named."""
    own = [field.name for field in fields(settings) if field.name not in ("attribution", "map", "maps", "attacks")]
    names = settings.map_names
    maps: dict[str, Any] = {"map": names[0], "maps": list(names)} if len(names) > 1 else {"map": names[0]}
    return {name: getattr(settings, name) for name in own} | maps | {"attacks": list(settings.attack_names)}


def fit_to_minutes(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    minutes: float,
    *,
    device: torch.device | str | None = None,
    clock: Clock = time.monotonic,
) -> AuditSettings:
    """The settings with as many images, and if need be fewer passes or steps, as fit into `minutes`.

    A short run of every attack on a few images is timed first.
    """
    if not minutes > 0:
        raise expected("minutes > 0", got=minutes)
    unit, each, least = _time_attacks(model, data, settings, device, clock)
    most = getattr(settings, unit)
    seconds = 60 * minutes * SHARE_FOR_ATTACKS
    limit, depth = fit_images_and_steps(each, most, _images(data, settings), seconds, fewest_steps=min(least, most))
    return _with(replace(settings, limit=limit), unit, depth)


def minutes_needed(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    *,
    device: torch.device | str | None = None,
    clock: Clock = time.monotonic,
) -> float:
    """The minutes that an audit with these settings takes, from a short timed run of every attack.

    Small batches take longer per image, so a large audit is timed on more images.
    """
    probed = min(settings.batch_size, max(PROBE_IMAGES, _images(data, settings) // 12))
    unit, each, least = _time_attacks(model, data, settings, device, clock, probed)
    depth: int = max(least, getattr(settings, unit))
    return each * depth * _images(data, settings) / 60 / SHARE_FOR_ATTACKS


def _time_attacks(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    device: torch.device | str | None,
    clock: Clock,
    images: int = PROBE_IMAGES,
) -> tuple[str, float, int]:
    """The unit of the budget ("passes" or "steps"), the seconds that one takes per image, and the fewest possible."""
    network = model if isinstance(model, Classifier) else Classifier(model)
    few = data.stratified(min(images, len(data)), seed=settings.seed)
    strong = STRONGEST in settings.attack_names
    unit = "passes" if strong else "steps"
    tried = min(getattr(settings, unit), PROBE_PASSES if strong else PROBE_STEPS)
    probe = _protocol(_with(settings, unit, tried), settings.top_k(data))
    probe = replace(probe, diagnose=0, panels=0, pgd=None, apgd=())
    relabelled = _relabelled(network, few, device)
    evaluate(network, relabelled.subset([0]), probe, device=device)  # the first call sets things up
    with count_passes() as counter:
        started = clock()
        evaluate(network, relabelled, probe, device=device)
        spent = clock() - started
    if not strong:
        return unit, spent / len(few) / tried, FEWEST_STEPS
    maps = 1 + _share_of(STRONGEST, settings.attack_names) * (len(settings.map_names) - 1)  # passes count per map
    taken = math.ceil(counter.passes / len(few) / maps)  # the fewest steps may take more passes than they were given
    return unit, maps * spent / max(1, counter.passes), max(FEWEST_PASSES, taken)


def _images(data: Dataset, settings: AuditSettings) -> int:
    return len(data) if settings.limit is None else min(settings.limit, len(data))


def _with(settings: AuditSettings, unit: str, depth: int) -> AuditSettings:
    return replace(settings, passes=depth) if unit == "passes" else replace(settings, steps=depth)


def _protocol(settings: AuditSettings, k: int) -> EvaluationProtocol:
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
    explained = _explained(settings)
    search = settings.search_ig_steps if getattr(explained, "points", 1) > settings.search_ig_steps else None
    strong = {"ig_steps": settings.ig_steps, "judge_points": settings.search_ig_steps}
    centred = decisive(settings.own_attacks) == STRONGEST and settings.attribution is None

    def shared(name: str) -> AttackSettings:
        return AttackSettings(
            eps=settings.eps,
            steps=settings.steps,
            k=k,
            ig_steps=settings.ig_steps,
            map=settings.map,
            map_options={"score": "centred-logit"} if centred and name == CONTROL else {},  # that of the verdict
            attribution=settings.attribution,
            search_ig_steps=search,
            strongest=strong | {"passes": max(1, round(_share_of(name, together) * settings.passes))},
            ensemble={"steps": max(1, settings.steps // 2), "search_ig_steps": search},
            control_steps=CONTROL_STEPS if settings.strong else None,
        )

    return {name: make_attacks(shared(name), [name])[name] for name in settings.own_attacks}


def _share_of(name: str, together: tuple[str, ...]) -> float:
    """The part of the passes that one attack gets; without the map of the true logit, the others get both parts."""
    if name == STRONGEST and TRUE_LOGIT not in together:
        return sum(SHARES.values())
    return SHARES.get(name, 1.0)


def _explained(settings: AuditSettings) -> Attribution:
    return settings.attribution or make_map(settings.map, steps=settings.ig_steps)


def _relabelled(model: nn.Module, data: Dataset, device: torch.device | str | None) -> Dataset:
    with evaluating(model), torch.no_grad():
        found = [model(to_float(part, device)) for part in data.x.split(64)]
    check_outputs(logits := torch.cat(found))
    y = logits.argmax(1).cpu()
    names = data.class_names if int(y.max()) < len(data.class_names) else tuple(map(str, range(int(y.max()) + 1)))
    return replace(data, y=y, class_names=names)
