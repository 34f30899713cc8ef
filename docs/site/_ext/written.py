"""Writes the generated pages into the source folder before Sphinx reads it: `reference/`, `project/`, `zoo/` and more.

A page is written only if it has changed, so that a second build is fast. The folders are not in the repository.
"""

from pathlib import Path
from typing import Any

import command_page
import documents
import reference


def all_pages() -> dict[str, bytes]:
    """Path on the site -> content, of every generated page."""
    made = {f"reference/{name}": text.encode() for name, text in reference.pages().items()}
    return {**made, "reference/commands.md": command_page.page().encode(), **documents.pages()}


def write(app: Any) -> None:
    """Write what has changed, and delete pages of an earlier build that no longer exist."""
    source, pages = Path(app.srcdir), all_pages()
    for folder in {Path(name).parts[0] for name in pages}:
        for old in (path for path in (source / folder).rglob("*") if path.is_file()):
            if old.relative_to(source).as_posix() not in pages:
                old.unlink()
    for name, content in pages.items():
        path = source / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def setup(app: Any) -> dict[str, bool]:
    """Run before the files are read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
