"""The ablations of ERAR: each variant compared with the method it changes, beside the difference in the paper."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.metrics.registry import METRICS
from holdfast.report.compare import differences_of
from holdfast.report.more_tables import COMPARED_WITH, PAIRS, difference_cells, difference_columns
from holdfast.report.tables import ATTACK, METHOD, Cell, Column, Table, paper_of
from holdfast.report.view import RunView, decisive_attack, is_ablation, without_attack
from holdfast.runs import Difference
from holdfast.runs.names import REFERENCE

FULL, SCALED = "erar", "-scale-100"
_TOLD = Column(key="told_from_zero", title="Told from zero", unit="text")


def ablation_table(views: Sequence[RunView]) -> Table:
    """Variant minus the method it changes on the same images, under the reference attack and the one that decides."""
    attacks = [name for name in dict.fromkeys((REFERENCE, decisive_attack(views))) if name]
    by_method = {(view.method, *_like(view)): view for view in reversed(views)}  # the first of several equal ones
    variants = [view for view in views if is_ablation(view.method)]
    bases = [by_method.get((_base(view.method), *_like(view))) for view in variants]
    pairs = [(view, base) for view, base in zip(variants, bases, strict=True) if base]
    alone = [view.label for view, base in zip(variants, bases, strict=True) if not base]
    columns, rows = difference_columns(views), []
    for (variant, base), attack in itertools.product(pairs, attacks):
        found = differences_of(base.run.rows_of(attack), variant.run.rows_of(attack))
        if not found:
            continue
        cells = difference_cells(found, columns)
        if attack == REFERENCE:  # the only attack of the paper
            cells = [_beside_paper(cell, base, variant, column) for cell, column in zip(cells, columns, strict=True)]
        names = (Cell(value=text) for text in (variant.label, base.label, attack))
        count, told = Cell(value=next(iter(found.values())).n), Cell(value=_told(found, columns))
        rows.append((*names, count, *cells, told))
    return Table(
        name=f"ablations-{views[0].group if views else ''}",
        title="Ablations of ERAR",
        columns=(METHOD, COMPARED_WITH, ATTACK, PAIRS, *columns, _TOLD),
        rows=tuple(rows),
        notes=(
            "Mean of method minus compared method [95 % interval] over the images that both predict correctly, for "
            "runs with the same seed, tier and network. Paper: its median of the variant minus its median of ERAR, "
            "from single runs.",
            "Told from zero: the metrics whose interval excludes zero. The interval contains the chance of the images, "
            "not that of training.",
            *([f"Without a run to compare with: {', '.join(alone)}."] if alone else ()),
            *filter(None, (without_attack([view for pair in pairs for view in pair], attack) for attack in attacks)),
        ),
    )


def _base(method: str) -> str:
    """The method that a variant changes: the full one, or for a scale of the attributions that without the scale.

    >>> _base("erar-no-nca"), _base("erar-cacr-only-scale-100"), _base("erar-scale-100")
    ('erar', 'erar-cacr-only', 'erar')
    """
    return method.removesuffix(SCALED) if method.endswith(SCALED) else FULL


def _like(view: RunView) -> tuple[str, str, str]:
    """What two runs of an ablation have in common: the seed, the tier of the preset and the network."""
    return view.seed, view.preset.partition(":")[2], view.network


def _beside_paper(cell: Cell, base: RunView, variant: RunView, column: Column) -> Cell:
    metric = column.key.removesuffix("_difference")
    theirs, full = paper_of(variant, metric), paper_of(base, metric)
    return cell if theirs is None or full is None else replace(cell, paper=round(theirs - full, 6))


def _told(found: Mapping[str, Difference], columns: Sequence[Column]) -> str:
    shown = {column.key.removesuffix("_difference") for column in columns}
    return ", ".join(METRICS[n].title for n, one in found.items() if n in shown and not one.includes_zero) or "no"
