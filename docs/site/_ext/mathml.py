"""Equations as MathML, which browsers draw themselves: no script, no fonts, nothing from another host."""

import html
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

MACROS = {
    **{rf"\{name}": rf"\mathrm{{{name}}}" for name in ("CE", "KL", "IG", "CACR", "WACR")},
    r"\argmax": r"\mathrm{arg\,max}",
}
"""Names of the pages' equations -> LaTeX that the converter knows."""


def expanded(latex: str) -> str:
    r"""Replace the macros.

    >>> expanded(r"\CE(x) + \lambda \CACR")
    '\\mathrm{CE}(x) + \\lambda \\mathrm{CACR}'
    """
    return re.sub(r"\\[A-Za-z]+", lambda match: MACROS.get(match[0], match[0]), latex)


def mathml(latex: str, display: str = "inline") -> str:
    """The equation as MathML; a command that the converter does not know is an error."""
    made = convert(expanded(latex), display=display)
    if unknown := re.findall(r"\\[A-Za-z]+", made):
        raise ValueError(f"expected LaTeX that latex2mathml knows, got {', '.join(unknown)} in {latex}")
    return re.sub(r"<mo>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false">\1</mo>', made)  # bars of a norm


def inline(writer: Any, node: Any) -> None:
    """Write an equation inside a line."""
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def display(writer: Any, node: Any) -> None:
    """Write an equation of its own line; the LaTeX source is its title."""
    latex = node.astext().strip()
    title = html.escape(latex, quote=True)
    writer.body.append(f'<div class="equation" title="{title}">{mathml(latex, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
