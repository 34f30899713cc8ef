"""The report page: one HTML file from any number of runs."""

from collections.abc import Sequence
from typing import Any

from holdfast.report.before_after import BeforeAfter
from holdfast.report.certificates import page_certificates
from holdfast.report.charts import box_plots, training_curves
from holdfast.report.compare import compare
from holdfast.report.lead import command_lines, page_lead
from holdfast.report.looks import method_looks
from holdfast.report.page import render_page
from holdfast.report.payload import payload, to_script_json
from holdfast.report.pictures import pictures
from holdfast.report.quality_tables import controls_table, quality_table
from holdfast.report.sections import findings, page_boxes, page_curves, page_provenance, page_table
from holdfast.report.tables import conventions_table, exclusions_table, ordered, results_table
from holdfast.report.trade_off import page_trade_off, trade_offs
from holdfast.report.view import RunView, datasets
from holdfast.runs.names import CONTROLS
from holdfast.runs.next_steps import Step
from holdfast.runs.provenance import now, package_version

STYLES = ("base.css", "report.css", "audit.css", "print.css")
SCRIPTS = ("data.js", "heat.js", "pictures.js", "rows.js", "start.js")


def report_html(
    views: Sequence[RunView], *, title: str = "", before_after: BeforeAfter | None = None, steps: Sequence[Step] = ()
) -> str:
    """The complete page for any number of runs on any number of datasets; `steps` say what to do next."""
    looks = method_looks(views)
    found = pictures(views)
    data = payload(views, looks, found)
    first = views[0] if len(views) == 1 else None
    lead = page_lead(first, first.audit, found) if first is not None and first.audit is not None else None
    return render_page(
        "report.html.jinja",
        styles=STYLES,
        scripts=SCRIPTS,
        title=title or (lead["title"] if lead else _title(views)),
        lead=lead,
        before_after=before_after,
        steps=[{"text": step.text, "command": command_lines(step.command)} for step in steps],
        data=to_script_json(data),
        groups=[_group(group, looks, with_findings=lead is None) for group in datasets(views).values()],
        looks=looks,
        controls=CONTROLS,
        runs=[page_provenance(view) for view in views],
        notes=[] if lead else page_notes(views, audits=before_after is None),  # the lead, or the comparison, has them
        certificates=page_certificates(views),
        exclusions=page_table(exclusions_table(views)),
        pictures=len(data["pictures"]),
        left_out=data["left_out"],
        rows=data["rows"]["n"],
        made=now()[:16].replace("T", " "),
        version=package_version("holdfast"),
    )


def _title(views: Sequence[RunView]) -> str:
    names = list(datasets(views))
    return f"Robustness of explanations: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def _group(views: Sequence[RunView], looks: dict[str, int], *, with_findings: bool) -> dict[str, Any]:
    """The content of the page for one dataset."""
    comparisons = compare(views)
    quality, controls = quality_table(views), controls_table(views)
    return {
        "dataset": views[0].group,
        "findings": findings(views, comparisons) if with_findings else [],
        "results": page_table(results_table(views, comparisons)),
        "trade_offs": [page_trade_off(plot) for plot in trade_offs(views, looks)],
        "boxes": [page_boxes(plot) for plot in box_plots(views, looks)],
        "curves": [page_curves(chart) for chart in training_curves(views, looks)],
        "conventions": page_table(conventions_table(views)),
        "quality": page_table(quality) if quality.rows else None,
        "controls": page_table(controls) if controls.rows else None,
        "legend": [(view.label, looks[view.label]) for view in views if view.run.log.entries],
    }


def page_notes(views: Sequence[RunView], *, audits: bool = True) -> list[tuple[str, str]]:
    """Each distinct note and warning with the labels of its runs; those of audits only if `audits`."""
    about: dict[str, list[str]] = {}
    for view in views:
        for text in (*view.notes, *_more_notes(view, audits)):
            about.setdefault(text, []).append(view.label)
    return [(", ".join(dict.fromkeys(labels)), text) for text, labels in about.items()]


def _more_notes(view: RunView, audits: bool) -> Sequence[str]:
    """The notes of an audit, which include the warnings of its attacks, or the warnings of any other run."""
    if view.audit is not None:
        return view.audit.notes if audits else ()
    return [f"{attack.name}: {text}" for attack in ordered(view.attacks) for text in attack.warnings]
