"""Runs as used by the report: a typed summary and a unique label for each run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.metrics.registry import METRICS
from holdfast.report.audit import AuditView, view_audit
from holdfast.report.document import Document, one_line
from holdfast.report.groups import note_depths, run_budget, run_depths, split_by_budget
from holdfast.report.maps import MapsView, view_maps
from holdfast.runs import Run, RunInfo, add_verdict, summarise
from holdfast.runs.bootstrap import Interval
from holdfast.runs.budget import Budget
from holdfast.runs.controls import AGREEMENT, CONTROL_MAPS
from holdfast.runs.names import DECISIVE, HEADLINES, is_control, map_of
from holdfast.storage.json_files import plain

_METHODS = ("natural", "madry", "trades", "ig-norm", "rar", "ig-sum-norm", "art", "igr", "erar")
_UNKNOWN = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Stat:
    """A median or share with its interval, mean, quartiles and n."""

    median: float | None = None
    ci95: Interval | None = None
    mean: float | None = None
    mean_ci95: Interval | None = None
    quartiles: Interval | None = None
    n: int = 0


@dataclass(frozen=True, kw_only=True)
class AttackView:
    """The results of one attack on one run."""

    name: str
    metrics: dict[str, Stat]
    failed: Stat
    outcomes: dict[str, int]
    exclusions: tuple[tuple[str, int], ...]
    conventions: dict[str, dict[str, Stat]]
    warnings: tuple[str, ...]
    wins: dict[str, int]
    k: int = 0
    """The k of the metrics of the top k; 0 if it was not recorded."""
    chance: dict[str, float] = field(default_factory=dict)
    """Metric -> its expected value for two random maps."""
    controls: dict[str, dict[str, Stat]] = field(default_factory=dict)
    """Control map -> measure -> statistics, for the control maps that were measured."""


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run: its identity, its results and its notes.

    Runs of the same `group` are compared: it is the dataset, with budget and map if runs of that dataset differ in it.
    """

    run: Run
    label: str
    dataset: str
    group: str
    method: str
    preset: str
    network: str
    seed: str
    n: int
    natural: Stat
    pgd: Stat
    apgd: Stat
    example_passes: float | None
    train_seconds: float | None
    limit: str
    class_names: tuple[str, ...]
    attacks: dict[str, AttackView]
    quality: dict[str, Stat]
    quality_attack: str
    """The attack of the attacked maps; empty if it was not recorded."""
    notes: tuple[str, ...]
    budget: Budget | None = None
    depths: dict[str, str] = field(default_factory=dict)
    """Attack -> its passes or steps in words, where they are recorded."""
    audit: AuditView | None = None
    maps: MapsView | None = None


def view_runs(runs: Sequence[Run], *, unfinished: RunInfo | None = None) -> tuple[RunView, ...]:
    """Typed views of runs, with labels that are unique within a group.

    Known methods are sorted as in the papers, followed by variants of ERAR and then other methods as given.
    `unfinished` describes runs that have rows and no summary yet.
    """
    views = split_by_budget(sorted((_view(run, unfinished) for run in runs), key=_rank))
    hints: tuple[Callable[[RunView], str], ...] = (
        lambda view: view.preset,
        lambda view: f"seed {view.seed}",
        lambda view: one_line(view.run.name),
        lambda view: one_line(f"{view.run.folder.parent.name}/{view.run.name}"),
    )
    for hint in hints:
        alike: dict[tuple[str, str], set[str]] = {}
        for view in views:
            alike.setdefault((view.group, view.label), set()).add(hint(view))
        views = [
            replace(view, label=f"{view.label} · {hint(view)}") if len(alike[view.group, view.label]) > 1 else view
            for view in views
        ]
    notes = {name: note_depths(group, decisive_attack(group)) for name, group in datasets(views).items()}
    return tuple(replace(v, notes=(*v.notes, notes[v.group])) if notes[v.group] else v for v in views)


def datasets(views: Sequence[RunView]) -> dict[str, tuple[RunView, ...]]:
    """The runs that are compared, by group, in order of appearance: those of each dataset (and budget)."""
    return {name: tuple(v for v in views if v.group == name) for name in dict.fromkeys(v.group for v in views)}


def decisive_attack(views: Sequence[RunView]) -> str:
    """The strongest attack that most of the evaluated runs have, at least two or all, else the headline attack."""
    evaluated = [view.attacks for view in views if view.attacks]
    having = {name: sum(name in attacks for attacks in evaluated) for name in DECISIVE}
    fewest = min(len(evaluated), max(2, len(evaluated) // 2 + 1))
    return next((name for name in DECISIVE if having[name] and having[name] >= fewest), headline_attack(views))


def is_ablation(method: str) -> bool:
    """Whether a method is an ablation of ERAR, such as `erar-no-base`."""
    return method.startswith("erar-")


def common_attacks(views: Sequence[RunView]) -> list[str]:
    """The attacks on the first map, without controls, that most of the evaluated runs have."""
    evaluated = [view.attacks for view in views if view.attacks]
    names = dict.fromkeys(name for attacks in evaluated for name in attacks)
    having = {name: sum(name in attacks for attacks in evaluated) for name in names}
    most = [name for name, runs in having.items() if 2 * runs > len(evaluated)]
    return sorted(name for name in most if not (is_control(name) or map_of(name)))


def without_attack(views: Sequence[RunView], attack: str) -> str:
    """A note that names the evaluated runs which were not measured with this attack; empty if there are none."""
    missing = [view.label for view in views if view.attacks and attack not in view.attacks]
    return f"Not measured with {attack}: {', '.join(missing)}." if missing else ""


def headline_attack(views: Sequence[RunView]) -> str:
    """The paper's attack if present, else the first that is not the random control, else an empty string."""
    found = dict.fromkeys(name for view in views for name in view.attacks)
    ordered = [*(name for name in HEADLINES if name in found), *(name for name in found if not is_control(name))]
    return ordered[0] if ordered else ""


def _rank(view: RunView) -> int:
    name = view.method.lower().replace("_", "-")
    if name in _METHODS:
        return _METHODS.index(name)
    return len(_METHODS) + (not name.startswith("erar"))


def _view(run: Run, unfinished: RunInfo | None) -> RunView:
    content, notes = run.summary, run.notes
    if content is None and run.examples.rows:
        info = unfinished or RunInfo(dataset=_UNKNOWN, method=run.name, preset=_UNKNOWN, seed=0)
        content = plain(add_verdict(summarise(run.examples.rows, info)))
        notes = (*notes, "there is no summary.json: the evaluation is not finished, and the numbers are preliminary")
    elif content is None:
        notes = (*notes, "not evaluated yet")
    data = Document(content or {}, f"{run.name}/summary.json")
    method = data.text("method", one_line(run.name))
    return RunView(
        run=run,
        label=method,
        dataset=data.text("dataset", _UNKNOWN),
        group=data.text("dataset", _UNKNOWN),
        method=method,
        preset=data.text("preset", _UNKNOWN),
        network=data.text("network"),
        seed=data.text("seed", _UNKNOWN),
        n=data.count("n"),
        natural=_share(data, "natural_accuracy"),
        pgd=_share(data, "pgd_accuracy"),
        apgd=_share(data, "apgd_accuracy"),
        example_passes=data.number("example_passes"),
        train_seconds=data.number("train_seconds"),
        limit=data.text("limit"),
        class_names=data.texts("class_names"),
        attacks={name: _attack(name, part) for name, part in data.parts("attacks").items()},
        quality={key: _quality(data.part("quality"), key) for key in data.part("quality").content},
        quality_attack=data.text("quality_attack"),
        notes=notes,
        budget=run_budget(run, data),
        depths=run_depths(run, data),
        audit=view_audit(data) if "audit" in data.content else None,
        maps=view_maps(data),
    )


def _attack(name: str, data: Document) -> AttackView:
    return AttackView(
        name=name,
        metrics={metric: _stat(data.part(metric)) for metric in METRICS if metric in data.content},
        failed=_share(data, "failed_share"),
        outcomes={key: data.part("outcomes").count(key) for key in data.part("outcomes").content},
        exclusions=tuple((item.text("reason"), item.count("n")) for item in data.items("exclusions")),
        conventions={
            convention: {metric: _stat(part.part(metric)) for metric in METRICS if metric in part.content}
            for convention, part in data.parts("conventions").items()
        },
        warnings=data.texts("warnings"),
        wins={one_line(key): data.part("wins").count(key) for key in data.part("wins").content},
        k=data.count("k"),
        controls={name: _control(part) for name, part in data.parts("controls").items() if name in CONTROL_MAPS},
        chance={m: value for m in METRICS if (value := data.part("chance").number(m)) is not None},
    )


def _control(data: Document) -> dict[str, Stat]:
    return {measure: _stat(data.part(measure)) for measure in (*METRICS, AGREEMENT) if measure in data.content}


def _stat(data: Document) -> Stat:
    return Stat(
        median=data.number("median"),
        ci95=data.interval("ci95"),
        mean=data.number("mean"),
        mean_ci95=data.interval("mean_ci95"),
        quartiles=data.interval("quartiles"),
        n=data.count("n"),
    )


def _share(data: Document, key: str) -> Stat:
    return Stat(median=data.number(key), ci95=data.interval(f"{key}_ci95"), n=data.count(f"{key}_n") or data.count("n"))


def _quality(data: Document, key: str) -> Stat:
    """A quality measure: a bare number, or an object with its median or mean."""
    if not isinstance(data.content[key], dict):
        return Stat(median=data.number(key))
    stat = _stat(data.part(key))
    return stat if stat.median is not None else replace(stat, median=stat.mean, ci95=stat.mean_ci95)
