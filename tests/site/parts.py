"""The parts of the site's build, imported as the build does it."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "docs" / "site" / "_ext"


def part(name: str) -> ModuleType:
    """A module of `docs/site/_ext`."""
    if str(PARTS) not in sys.path:
        sys.path.append(str(PARTS))
    return importlib.import_module(name)
