"""Self-contained HTML pages from templates: text is escaped, nothing is loaded, and only our own script may run."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
_POLICY = (
    "default-src 'none'; img-src data:; style-src {style}; script-src {script}; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


def render_page(template: str, *, styles: tuple[str, ...], scripts: tuple[str, ...], **context: Any) -> str:
    """Render a template; the content security policy allows only the given styles and scripts, by their hashes."""
    style = "".join(_asset(name) for name in styles)
    script = f"'use strict';\n(() => {{\n{''.join(_asset(name) for name in scripts)}}})();\n"
    policy = _POLICY.format(style=_digest(style), script=_digest(script))
    return _environment().get_template(template).render(style=style, script=script, policy=policy, **context)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The CSP source expression that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
