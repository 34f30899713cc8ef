"""Docstrings as reStructuredText: code in backticks, indented formulas, lists and doctests; all else is plain text.

The docstrings are written for reading in an editor. Every character that has a meaning in reStructuredText is escaped,
so that no docstring can break the build.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

SPECIAL = re.compile(r"([\\*_|`<>\[\]:])")
CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def text(line: str) -> str:
    """One piece of text: `code` becomes a literal, everything else is escaped.

    >>> text("|x| of `x_adv`, as in *RAR*")
    '\\\\|x\\\\| of :code:`x_adv`, as in \\\\*RAR\\\\*'
    """
    parts = CODE.split(line)
    made = ""
    for place, part in enumerate(parts):
        if place % 2 == 0:
            made += SPECIAL.sub(r"\\\1", part)
        else:
            code = " ".join(part.split()).replace("\\", "\\\\")
            before = "\\ " if made and not made[-1].isspace() and made[-1] not in "([" else ""
            after = "\\ " if parts[place + 1][:1].isalnum() else ""
            made += f"{before}:code:`{code}`{after}"
    return made


def markdown(line: str) -> str:
    """One piece of text for a Markdown page, also inside a table: `code` stays code, everything else is escaped.

    >>> markdown("|x| of `x_adv`, in runs/<name>")
    '\\\\|x\\\\| of `x_adv`, in runs/\\\\<name\\\\>'
    """
    parts = CODE.split(line)
    escaped = [re.sub(r"([\\\\*_|`<>\[\]{}$])", r"\\\1", part) for part in parts[::2]]
    code = [f"`{part.replace('|', chr(92) + '|')}`" for part in parts[1::2]]
    return "".join(piece for pair in zip(escaped, [*code, ""], strict=True) for piece in pair)


def blocks(lines: list[str]) -> Iterator[list[str]]:
    """The blocks of a docstring, which blank lines separate."""
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            yield list(group)


def converted(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    made: list[str] = []
    for block in blocks(lines):
        if block[0].lstrip().startswith(">>>"):
            made += [".. code-block:: pycon", "", *("   " + line.strip() for line in block)]
        elif all(line.startswith(" ") for line in block):
            made += [".. code-block:: text", "", *("   " + line for line in block)]
        elif block[0].startswith("- "):
            made += _items(block)
        else:
            made += text("\n".join(line.strip() for line in block)).split("\n")
        made.append("")
    return made


def _items(block: list[str]) -> list[str]:
    items = re.split(r"\n(?=- )", "\n".join(block))
    return [f"- {text(' '.join(item.removeprefix('- ').split()))}" for item in items]


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring in place; called by autodoc."""
    lines[:] = converted(lines)


def setup(app: Any) -> dict[str, bool]:
    """Register with autodoc."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
