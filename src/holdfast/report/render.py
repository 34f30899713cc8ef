"""Render a table as Markdown, LaTeX or CSV, or for the terminal."""

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.report.tables import Cell, Column, Table, Unit

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {c: f"\\{c}" for c in "&%$#_{}"}
_RIGHT: tuple[Unit, ...] = ("count", "percent", "number", "points")
_NOT_IN_TERMINAL = ("preset", "spearman", "lens_precision", "ssim")
_FORMULA = re.compile(r"^[=+\-@\t\r]")


def format_number(value: float, unit: Unit, *, digits: int | None = None) -> str:
    """A number in its unit, without the unit symbol.

    >>> format_number(0.8104, "percent"), format_number(0.3494, "number"), format_number(0.1, "points")
    ('81.0', '0.349', '+10.0')
    """
    if unit == "count":
        return f"{int(value):,}"
    places = digits if digits is not None else (3 if unit == "number" else 1)
    scaled = value if unit == "number" else 100 * value
    return f"{scaled:+.{places}f}" if unit == "points" else f"{scaled:.{places}f}"


def format_paper(value: float, unit: Unit) -> str:
    """A published number with its published number of digits."""
    return f"{format_number(value, unit, digits=4 if unit == 'number' else 2)}{sign(unit)}"


def format_interval(cell: Cell, unit: Unit) -> str:
    """The interval in brackets, or an empty string."""
    return f"[{', '.join(format_number(end, unit) for end in cell.ci95)}]" if cell.ci95 else ""


def sign(unit: Unit) -> str:
    """The unit symbol: a percent sign for percentages, else an empty string."""
    return " %" if unit == "percent" else ""


def plain_cell(cell: Cell, column: Column) -> str:
    """A cell as plain text: value, interval and the paper's number."""
    if isinstance(cell.value, str):
        return cell.value
    return " ".join(f"({part})" if part.startswith("paper") else part for part in _parts(cell, column))


def _parts(cell: Cell, column: Column) -> list[str]:
    if isinstance(cell.value, str):
        return [cell.value]
    parts = []
    if cell.value is not None:
        parts += [f"{format_number(cell.value, column.unit)}{sign(column.unit)}", format_interval(cell, column.unit)]
    if cell.paper is not None:
        parts.append(f"paper {format_paper(cell.paper, column.unit)}")
    return [part for part in parts if part]


def to_markdown(table: Table) -> str:
    """A GitHub table, with its title above and its notes below."""
    rules = ["--:" if column.unit in _RIGHT else "---" for column in table.columns]
    lines = [[column.title for column in table.columns], rules]
    body = [[_markdown_text(plain_cell(cell, column)) for cell, column in _cells(row, table)] for row in table.rows]
    rows = [f"| {' | '.join(row)} |" for row in [[_markdown_text(t) for t in lines[0]], lines[1], *body]]
    notes = [f"- {_markdown_text(note)}" for note in table.notes]
    return "\n".join([f"### {_markdown_text(table.title)}", "", *rows, "", *notes, ""])


def to_latex(table: Table) -> str:
    """A booktabs table; it needs only \\usepackage{booktabs}."""
    shape = "".join("r" if column.unit in _RIGHT else "l" for column in table.columns)
    head = " & ".join(latex_text(column.title) for column in table.columns)
    body = [
        " & ".join(latex_text(plain_cell(cell, column)) for cell, column in _cells(row, table)) for row in table.rows
    ]
    caption = latex_text(". ".join([table.title, " ".join(table.notes)]))
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize",
        rf"\begin{{tabular}}{{{shape}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *(rf"{line} \\" for line in body),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def to_csv(table: Table) -> str:
    """Plain numbers (fractions in [0, 1]); columns _low, _high, _n and _paper follow a column that has these values."""
    wide = [(column, _extras(table, at)) for at, column in enumerate(table.columns)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"{column.key}{end}" for column, extras in wide for end in ("", *extras)])
    for row in table.rows:
        writer.writerow(
            [_bare(part) for cell, (_, extras) in zip(row, wide, strict=True) for part in _spread(cell, extras)]
        )
    return text.getvalue()


def to_rich(table: Table) -> "RichTable":
    """A table for the terminal, without the columns of `_NOT_IN_TERMINAL`. User text is not parsed as markup."""
    from rich.box import SIMPLE
    from rich.table import Table as RichTable
    from rich.text import Text

    title, notes = Text(table.title, style="bold"), Text("\n".join(table.notes))
    shown = RichTable(title=title, caption=notes, caption_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    columns = [column for column in table.columns if column.key not in _NOT_IN_TERMINAL]
    for column in columns:
        shown.add_column(Text(column.title), justify="right" if column.unit in _RIGHT else "left", overflow="fold")
    for row in table.rows:
        kept = [(cell, column) for cell, column in _cells(row, table) if column in columns]
        shown.add_row(*(Text("\n".join(p.replace(" ", "\u00a0") for p in _parts(c, column))) for c, column in kept))
    return shown


def latex_text(text: str) -> str:
    """Text with all LaTeX special characters escaped.

    >>> latex_text("50 % of x_1")
    '50 \\\\% of x\\\\_1'
    """
    return "".join(_LATEX.get(c, c) for c in text)


def _markdown_text(text: str) -> str:
    """Text with Markdown special characters escaped: no emphasis, code, cell, tag or link."""
    return re.sub(r"([\\`*_<>|~]|(?<=\])\()", r"\\\1", text).replace("\n", " ")


def _cells(row: Sequence[Cell], table: Table) -> list[tuple[Cell, Column]]:
    return list(zip(row, table.columns, strict=True))


def _extras(table: Table, at: int) -> tuple[str, ...]:
    cells = [row[at] for row in table.rows]
    present = {
        "_low": any(cell.ci95 for cell in cells),
        "_high": any(cell.ci95 for cell in cells),
        "_n": any(cell.n is not None for cell in cells),
        "_paper": any(cell.paper is not None for cell in cells),
    }
    return tuple(end for end, there in present.items() if there)


def _spread(cell: Cell, extras: Sequence[str]) -> list[str | float | None]:
    low, high = cell.ci95 or (None, None)
    known = {"_low": low, "_high": high, "_n": cell.n, "_paper": cell.paper}
    return [cell.value, *(known[end] for end in extras)]


def _bare(value: str | float | None) -> str:
    """A CSV cell; text that a spreadsheet would interpret as a formula is escaped."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if _FORMULA.match(value) else value
    return f"{value:.6g}" if isinstance(value, float) else str(value)
