"""holdfast audits how easily a network's explanations can be moved, and trains networks whose explanations hold."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

# `__init__.pyi` is the one table of public names. They are loaded on first use, so that `holdfast --help` and
# `import holdfast` cost next to nothing and PyTorch is loaded only by those who need it.
_HOMES = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module is not None
    for alias in node.names
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    if module == "holdfast":
        return import_module(f"holdfast.{attribute}")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
