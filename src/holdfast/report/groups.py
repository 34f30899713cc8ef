"""Which runs compare: those with the same budget and map. The passes or steps of their attacks may differ; it is said.

Both are in `summary.json`. For older runs they are read from `measured.json`, which holds the settings as text.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import DataError
from holdfast.report.document import Document
from holdfast.runs.budget import Budget, budget_from_text, depth_from_text, map_name
from holdfast.runs.names import STRONGEST, TRUE_LOGIT, attack_of, in_words, is_control
from holdfast.runs.run import Run

if TYPE_CHECKING:
    from holdfast.report.view import RunView

_FIRST_MAP = "ig"
"""The map of runs that do not record it: there was no other."""


def run_budget(run: Run, data: Document) -> Budget | None:
    """The budget of the attacks: from the summary, or else from the settings in `measured.json`."""
    attacks, explained = data.parts("attacks"), _audited_map(data)
    for attack in attacks.values():
        if "budget" in attack.content:
            known = attack.part("budget")
            explained = known.text("map") or explained
            return Budget(
                norm=known.text("norm") or None,
                eps=known.number("eps"),
                k=known.count("k") or None,
                map=explained or _FIRST_MAP,
            )
    found = (budget_from_text(str(_measured(run).get(f"attack {name}", ""))) for name in attacks)
    budget = next((budget for budget in found if budget is not None), None)
    return None if budget is None else replace(budget, map=explained or budget.map or _FIRST_MAP)


def run_depths(run: Run, data: Document) -> dict[str, str]:
    """Attack -> its passes or steps in words, for every attack that searches and for which they are recorded."""
    names = [name for name in data.parts("attacks") if not is_control(name)]
    if "audit" in data.content:
        settings = data.part("audit").part("settings")
        units = {name: "passes" if attack_of(name) in (STRONGEST, TRUE_LOGIT) else "steps" for name in names}
        found = {name: f"{settings.count(unit):,} {unit}" for name, unit in units.items() if settings.count(unit)}
    else:
        found = {name: depth_from_text(str(_measured(run).get(f"attack {name}", ""))) for name in names}
    return {name: depth for name, depth in found.items() if depth}


def split_by_budget(views: Sequence["RunView"]) -> list["RunView"]:
    """Put runs of one dataset with different budgets or maps into different groups, and say so in their notes."""
    budgets: dict[str, dict[Budget, None]] = {}
    for view in views:
        if view.budget is not None:
            budgets.setdefault(view.dataset, {})[view.budget] = None
    return [_apart(view, list(budgets.get(view.dataset, ()))) for view in views]


def note_depths(group: Sequence["RunView"], attack: str) -> str:
    """A note if the attack that decides a comparison had different passes or steps in its runs; empty if not."""
    depths = {view.label: view.depths[attack] for view in group if attack in view.depths}
    if len(set(depths.values())) < 2:
        return ""
    said = ", ".join(f"{label} {depth}" for label, depth in depths.items())
    return f"{in_words(attack)} had different budgets per image ({said}); a longer search finds more damage"


def _apart(view: "RunView", budgets: Sequence[Budget]) -> "RunView":
    if len(budgets) < 2:
        return view
    with_map = len({budget.map for budget in budgets}) > 1
    texts = [budget.text_with_map if with_map else budget.text for budget in budgets]
    same = len({budget.text for budget in budgets}) == 1
    how = "on different maps" if same else "with different budgets"
    note = f"runs on {view.dataset} were attacked {how} ({'; '.join(texts)}); "
    note += "they are in separate tables and are not compared"
    budget = view.budget or Budget()
    own = budget.text_with_map if with_map else budget.text
    return replace(view, group=f"{view.dataset}, {own}", notes=(*view.notes, note))


def _audited_map(data: Document) -> str:
    """The map in the settings of an audit, of several the first; empty for any other run."""
    settings = data.part("audit").part("settings") if "audit" in data.content else Document({}, "")
    return map_name(next(iter(settings.texts("maps")), settings.text("map")))


def _measured(run: Run) -> Mapping[str, Any]:
    with suppress(DataError):
        return run.measured
    return {}
