"""Data flows one way: a room imports only from rooms above it in the table, and no room has a cycle inside.

Read from the syntax tree; nothing is run.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

LOOSE = ("__init__", "__main__", "cli", "errors", "rng", "types")
"""The only modules outside of a room. `errors`, `rng` and `types` may be imported by everyone."""

ROOMS = (
    "storage",
    "engine",
    "metrics",
    "runs",
    "report",
    "data",
    "models",
    "attribution",
    "losses",
    "attacks",
    "certificates",
    "objective",
    "recipes",
    "config",
    "training",
    "evaluation",
    "zoo",
    "experiment",
    "bench",
    "commands",
)
"""Each room imports only from those before it. CONTRIBUTING.md has the same table, with what lives in each."""

WITHOUT_TORCH = ("storage", "runs", "config", "report")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def room(module: str) -> str:
    """The room of a module; its own name for a loose one."""
    return module.split(".")[1] if "." in module else "__init__"


def imported(path: Path) -> set[str]:
    """Every holdfast module that a file imports, at its top or inside a function, but not for type checking only."""
    tree = ast.parse(path.read_text())
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            # `from holdfast import rng` imports holdfast.rng; `from holdfast.rng import mix` imports holdfast.rng
            found |= {
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module for a in node.names
            }
    return {name for name in found if name.split(".")[0] == "holdfast"}


IMPORTS = {module: imported(path) for module, path in MODULES.items()}


def test_only_six_modules_are_loose() -> None:
    loose = {path.stem for path in (SOURCE / "holdfast").glob("*.py")}
    assert loose == set(LOOSE)


def test_every_room_is_in_the_table_and_says_what_lives_there() -> None:
    folders = {path.parent.name for path in (SOURCE / "holdfast").glob("*/__init__.py")}
    assert folders == set(ROOMS)
    for name in ROOMS:
        assert ast.get_docstring(ast.parse(MODULES[f"holdfast.{name}"].read_text())), name


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_only_from_rooms_before_it(name: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(name) + 1], "errors", "rng", "types", "__init__"}
    for module, others in IMPORTS.items():
        if room(module) == name:
            beyond = sorted(other for other in others if room(other) not in allowed)
            assert not beyond, f"{module} imports {', '.join(beyond)}"


@pytest.mark.parametrize("name", ["errors", "rng", "types"])
def test_loose_modules_import_no_room(name: str) -> None:
    assert {room(other) for other in IMPORTS[f"holdfast.{name}"]} <= {"errors", "__init__"}


@pytest.mark.parametrize("name", ROOMS)
def test_no_cycles_inside_a_room(name: str) -> None:
    inside = {m: {o for o in others if room(o) == name} for m, others in IMPORTS.items() if room(m) == name}
    inside.pop(f"holdfast.{name}", None)  # the room's own __init__ only gathers names
    for others in inside.values():
        others.discard(f"holdfast.{name}")
    order: list[str] = []
    while len(order) < len(inside):
        free = [m for m, others in inside.items() if m not in order and others <= set(order) | {m}]
        rest = sorted(set(inside) - set(order))
        assert free, f"a cycle among {', '.join(rest)}"
        order += free


@pytest.mark.parametrize("name", ROOMS)
def test_inside_a_room_nothing_imports_the_rooms_own_init(name: str) -> None:
    for module, others in IMPORTS.items():
        if room(module) == name and module != f"holdfast.{name}":
            assert f"holdfast.{name}" not in others, module


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_rooms_that_work_without_torch(name: str) -> None:
    for module, path in MODULES.items():
        if room(module) == name:
            top = ast.parse(path.read_text()).body
            names = [n for node in top if isinstance(node, ast.Import) for n in node.names]
            froms = [node.module or "" for node in top if isinstance(node, ast.ImportFrom)]
            heavy = [text for text in [*(n.name for n in names), *froms] if text.split(".")[0] == "torch"]
            assert not heavy, module


def test_contributing_has_the_same_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|", text, flags=re.MULTILINE)
    assert tuple(rows) == ROOMS


def test_no_star_imports() -> None:
    for path in MODULES.values():
        stars = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"
        ]
        assert not stars, path
