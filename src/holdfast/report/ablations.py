"""The ablations of ERAR: each variant compared with the full method, beside the difference that the paper reports."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.report.compare import differences_of
from holdfast.report.more_tables import PAIRS, difference_cells, difference_columns
from holdfast.report.tables import ATTACK, METHOD, Cell, Column, Table, paper_of
from holdfast.report.view import RunView, decisive_attack
from holdfast.runs import Difference
from holdfast.runs.names import REFERENCE

FULL = "erar"
_TOLD = Column(key="told_from_zero", title="Told from zero", unit="text")


def ablation_table(views: Sequence[RunView]) -> Table:
    """Variant minus full ERAR over the same images, under the reference attack and under the attack that decides."""
    attacks = [name for name in dict.fromkeys((REFERENCE, decisive_attack(views))) if name]
    full = {view.seed: view for view in views if view.method == FULL}
    variants = [view for view in views if view.method.startswith(f"{FULL}-") and view.seed in full]
    columns, rows = difference_columns(views), []
    for variant in variants:
        for attack in attacks:
            base = full[variant.seed]
            found = differences_of(base.run.rows_of(attack), variant.run.rows_of(attack))
            if not found:
                continue
            cells = difference_cells(found, columns)
            if attack == REFERENCE:  # the only attack of the paper
                cells = [
                    _beside_paper(cell, base, variant, column) for cell, column in zip(cells, columns, strict=True)
                ]
            pairs = Cell(value=next(iter(found.values())).n)
            rows.append(
                (Cell(value=variant.label), Cell(value=attack), pairs, *cells, Cell(value=_told(found, columns)))
            )
    return Table(
        name=f"ablations-{views[0].group if views else ''}",
        title="Ablations: variant minus full ERAR",
        columns=(METHOD, ATTACK, PAIRS, *columns, _TOLD),
        rows=tuple(rows),
        notes=(
            "Mean of variant minus full ERAR [95 % interval] over the same images; both go on from one Madry network "
            "with the same passes. Paper: its median of the variant minus its median of ERAR, from single runs.",
            "Told from zero: the metrics whose interval excludes zero. The interval contains the chance of the images, "
            "not that of training.",
        ),
    )


def _beside_paper(cell: Cell, base: RunView, variant: RunView, column: Column) -> Cell:
    metric = column.key.removesuffix("_difference")
    theirs, full = paper_of(variant, metric), paper_of(base, metric)
    return cell if theirs is None or full is None else replace(cell, paper=round(theirs - full, 6))


def _told(found: Mapping[str, Difference], columns: Sequence[Column]) -> str:
    titles = {column.key.removesuffix("_difference"): column.title.removesuffix(" (points)") for column in columns}
    return ", ".join(titles[name] for name, one in found.items() if not one.includes_zero) or "no"
