"""Additional tables: means, paired differences, worst case over all attacks, training cost, and checks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.report.compare import differences_of
from holdfast.report.document import Document
from holdfast.report.tables import ATTACK, COUNT, METHOD, Cell, Column, Table, measured, metric_columns, ordered
from holdfast.report.view import RunView, common_attacks, decisive_attack, is_ablation, without_attack
from holdfast.runs import Difference, describe, metric_values, worst_rows

OURS = "erar_plus"
PAPER_PASSES = {"mnist": 90_000 * 50 * (40 * 10 * 4 + 500), "fashion-mnist": 100_000 * 32 * (20 * 10 * 4 + 500)}
"""Example passes of ERAR with the paper's settings: steps x batch x (inner attack + outer terms)."""


CHECKS = (
    Column(key="autoattack.n", title="Images (accuracy)", unit="count"),
    Column(key="autoattack.pgd", title="PGD", unit="percent"),
    Column(key="autoattack.autoattack", title="AutoAttack", unit="percent"),
    Column(key="full.n", title="Images (maps)", unit="count"),
    Column(key="full.top_k_measured", title="Top-k", unit="percent"),
    Column(key="full.top_k", title="Top-k, 100 points", unit="percent"),
    Column(key="full.kendall_measured", title="Kendall", unit="number"),
    Column(key="full.kendall", title="Kendall, 100 points", unit="number"),
)
"""Columns of the checks table; a key is check.value in the checks.json of benchmarks/checks.py."""


PAIRS = Column(key="pairs", title="Pairs", unit="count")
COMPARED_WITH = Column(key="less", title="Compared with", unit="text")


def difference_columns(views: Sequence[RunView]) -> list[Column]:
    """One difference column per headline metric; differences of percentages are in points."""
    return [
        Column(key=f"{metric.name}_difference", title=f"{metric.title} (points)", unit="points")
        if metric.unit == "percent"
        else Column(key=f"{metric.name}_difference", title=metric.title, unit="number")
        for metric in measured(views, "headline")
    ]


def means_table(views: Sequence[RunView]) -> Table:
    """Means instead of medians: less sensitive to ties, more sensitive to single images."""
    columns_of = metric_columns(views)
    rows = [
        (
            Cell(value=view.label),
            Cell(value=attack.name),
            Cell(value=next((stat.n for stat in attack.metrics.values()), 0)),
            *(
                Cell(value=stat.mean, ci95=stat.mean_ci95, n=stat.n) if stat else Cell()
                for stat in (attack.metrics.get(column.key) for column in columns_of)
            ),
        )
        for view in views
        for attack in ordered(view.attacks)
    ]
    columns = (METHOD, ATTACK, COUNT, *columns_of)
    note = "Mean [95 % interval]; a failed attack counts as 1."
    return Table(name=f"means-{_dataset(views)}", title="Means", columns=columns, rows=tuple(rows), notes=(note,))


def paired_table(views: Sequence[RunView]) -> Table:
    """Paired difference between our method, or a variant of it, and every other, under the attack that decides."""
    attack = decisive_attack(views)
    rows_of = {view.label: view.run.rows_of(attack) for view in views if attack}
    differences, rows = difference_columns(views), []
    measured_views = [view for view in views if rows_of.get(view.label)]
    for view, our in [*_pairs(measured_views), *_pairs_of_variants(measured_views)]:
        found = differences_of(rows_of[view.label], rows_of[our.label])
        if found:
            pairs = Cell(value=next(iter(found.values())).n)
            rows.append((Cell(value=our.label), Cell(value=view.label), pairs, *difference_cells(found, differences)))
    return Table(
        name=f"paired-{_dataset(views)}",
        title=f"Paired difference to the other methods under {attack}",
        columns=(METHOD, COMPARED_WITH, PAIRS, *differences),
        rows=tuple(rows),
        notes=(
            "Mean of method minus compared method [95 % interval] over the same images; an interval that excludes zero "
            "is unlikely to be chance.",
            "Runs with different seeds are measured on different images, so only runs with the same seed are compared.",
            *filter(None, [without_attack(views, attack)]),
        ),
    )


def worst_table(views: Sequence[RunView]) -> Table:
    """Worst case over the attacks that most runs have, per image and metric."""
    attacks = common_attacks(views)
    worst = {view.label: worst_rows(view.run.examples.rows, attacks) for view in views}
    evaluated = [view for view in views if worst[view.label] and len(attacks) > 1]
    ours = {view.label: our for view, our in _pairs(evaluated)}
    method = next((our.method for our in ours.values()), OURS)
    first, *others = difference_columns(views)
    difference = (replace(first, title=f"{method} minus this row: {first.title}"), *others) if ours else ()
    measured_columns = metric_columns(views)
    rows = []
    for view in evaluated:
        stats = [describe(metric_values(worst[view.label], column.key)[1]) for column in measured_columns]
        our = ours.get(view.label)
        found = differences_of(worst[view.label], worst[our.label]) if our else {}
        rows.append(
            (
                Cell(value=view.label),
                Cell(value=stats[0]["n"]),
                *(Cell(value=stat["median"], ci95=stat["ci95"], n=stat["n"]) for stat in stats),
                *difference_cells(found, difference),
            )
        )
    return Table(
        name=f"worst-{_dataset(views)}",
        title="Worst case over all attacks",
        columns=(METHOD, COUNT, *measured_columns, *difference),
        rows=tuple(rows),
        notes=(
            f"Worst value over {', '.join(attacks)} for each image and metric. Median [95 % interval].",
            *[f"{method} minus this row: mean paired difference over the same images, within a seed."][: len(ours)],
            *filter(None, (without_attack(views, attack) for attack in attacks)),
        ),
    )


def costs_table(views: Sequence[RunView]) -> Table:
    """Cost of training, including the runs that a run was initialised from."""
    columns = (
        METHOD,
        Column(key="seed", title="Seed", unit="text"),
        Column(key="example_passes", title="Example passes", unit="count"),
        Column(key="fraction", title="Fraction of the paper's ERAR", unit="text"),
        Column(key="minutes", title="Minutes", unit="count"),
        Column(key="hardware", title="Hardware", unit="text"),
    )
    rows = []
    for view in views:
        if view.example_passes is None:
            continue
        paper = PAPER_PASSES.get(view.dataset)
        rows.append(
            (
                Cell(value=view.label),
                Cell(value=view.seed),
                Cell(value=view.example_passes),
                Cell(value=f"1/{paper / view.example_passes:,.0f}" if paper else ""),
                Cell(value=None if view.train_seconds is None else round(view.train_seconds / 60)),
                Cell(value=_hardware(view)),
            )
        )
    note = "Including the runs it started from. Wall-clock time, often with a parallel run; one thread unless stated."
    name = f"costs-{_dataset(views)}"
    return Table(name=name, title="Cost of training", columns=columns, rows=tuple(rows), notes=(note,))


def checks_table(views: Sequence[RunView]) -> Table:
    """Checks of the measurements: AutoAttack on the prediction, and all path points in the attack on the maps."""
    rows = []
    keys = [column.key.split(".") for column in CHECKS]
    for view in views:
        if view.run.checks:
            checks = Document(view.run.checks, f"{view.run.name}/checks.json")
            rows.append((Cell(value=view.label), *(Cell(value=checks.part(name).number(key)) for name, key in keys)))
    return Table(
        name=f"checks-{_dataset(views)}",
        title="Checks",
        columns=(METHOD, *CHECKS),
        rows=tuple(rows),
        notes=(
            "Images (accuracy): accuracy under the run's PGD and under AutoAttack (ART toolbox), on the same images.",
            "Images (maps): medians under the reference attack on the same images, as measured and with 100 path "
            "points in every iteration.",
        ),
    )


def _pairs(views: Sequence[RunView]) -> list[tuple[RunView, RunView]]:
    """Pairs (other run, our run with the same seed, else our first run); without our method, the last run is ours.

    There are no pairs where the last run is an ablation: `ablation_table` compares those.
    """
    ours = [view for view in views if view.method == OURS] or list(views[-1:])
    if ours and is_ablation(ours[0].method):
        return []
    others = [view for view in views if view not in ours]
    return [(view, next((our for our in ours if our.seed == view.seed), ours[0])) for view in others]


def _pairs_of_variants(views: Sequence[RunView]) -> list[tuple[RunView, RunView]]:
    """Pairs (run of another method, variant of ours with the same seed), such as `erar_plus-first-layer`."""
    if not any(view.method == OURS for view in views):  # then `_pairs` already compares with the last run
        return []
    variants = [view for view in views if view.method.startswith(f"{OURS}-")]
    others = [view for view in views if not view.method.startswith(OURS)]
    return [(view, variant) for variant in variants for view in others if view.seed == variant.seed]


def difference_cells(found: Mapping[str, Difference], columns: Sequence[Column]) -> list[Cell]:
    """The differences in the order of `difference_columns`."""
    by_key = {f"{name}_difference": difference for name, difference in found.items()}
    kept = [by_key.get(column.key) for column in columns]
    return [Cell() if found is None else Cell(value=found.mean, ci95=found.mean_ci95) for found in kept]


def _hardware(view: RunView) -> str:
    origin = (view.run.summary or {}).get("provenance", {})
    known = {key: origin.get(key) for key in ("cpu", "threads", "device")}
    threads = f"{known['threads']} threads" if (known["threads"] or 1) > 1 else "1 thread"
    return f"{known['cpu'] or known['device'] or 'not recorded'}, {threads}"


def _dataset(views: Sequence[RunView]) -> str:
    return views[0].group if views else ""
