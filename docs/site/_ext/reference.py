"""The pages of the reference, from the table of public names `holdfast/__init__.pyi` and the docstrings.

One page per room; a name of the table is documented as `hf.name`, the other names of a public room as `hf.room.name`.
"""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import converted, markdown

import holdfast

PACKAGE = Path(holdfast.__file__).parent
TITLES = {
    "evaluation": "Audit and evaluate",
    "attribution": "Maps and scores",
    "certificates": "Certificates",
    "metrics": "Metrics",
    "attacks": "Attacks",
    "losses": "Losses",
    "objective": "Objective",
    "recipes": "Methods and attacks of the papers",
    "training": "Training",
    "experiment": "Load trained networks",
    "zoo": "Zoo",
    "models": "Networks",
    "data": "Data",
    "engine": "Speed",
    "": "Keys, pairs and errors",
}
"""Room -> title of its page, in reading order; "" stands for `errors`, `rng` and `types`. Other rooms follow."""


@dataclass(frozen=True)
class Name:
    """A public name: how users write it after `hf.`, its room, and what it is."""

    path: str
    room: str
    value: Any

    @property
    def full(self) -> str:
        """The name that Sphinx imports."""
        return f"holdfast.{self.path}"

    @property
    def kind(self) -> str:
        """The kind of the object, as Sphinx's Python domain calls it."""
        if isinstance(self.value, ModuleType):
            return "module"
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"

    @property
    def docstring(self) -> str:
        """Its docstring; of a constant, the string below its assignment."""
        if self.kind == "data":
            return constants(self.room).get(self.path.rpartition(".")[2], "")
        return inspect.getdoc(self.value) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring, on one line; empty for what Python wrote, as for a dataclass."""
        first = " ".join(self.docstring.split("\n\n")[0].split())
        return "" if first.startswith(f"{self.path.rpartition('.')[2]}(") else first


def public_table() -> dict[str, tuple[str, str]]:
    """Public name -> (module it comes from, its name there); the module of a room is "holdfast"."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}


def names() -> list[Name]:
    """Every public name: those of the table, then those of the public rooms that the table does not have."""
    homes = {name: module for name, (module, _) in public_table().items() if module != "holdfast"}
    found = [Name(name, _room(module), getattr(holdfast, name)) for name, module in homes.items()]
    known, top = {id(name.value) for name in found if name.kind != "data"}, set(homes)
    for room in rooms():
        module = import_module(f"holdfast.{room}")
        members = [Name(f"{room}.{name}", room, getattr(module, name)) for name in module.__all__ if name not in top]
        found += [member for member in members if id(member.value) not in known]
    return found


def rooms() -> dict[str, list[str]]:
    """Public room -> its other names after `hf.`."""
    names = [(alias, room) for alias, (module, room) in public_table().items() if module == "holdfast"]
    return {room: [alias for alias, other in names if other == room != alias] for _, room in names}


def pages() -> dict[str, str]:
    """File name -> Markdown of every page of the reference, with its index."""
    found: dict[str, list[Name]] = {}
    for name in names():
        found.setdefault(name.room, []).append(name)
    order = [*(room for room in TITLES if room in found), *sorted(set(found) - set(TITLES))]
    made = {f"{_file(room)}.md": _page(room, found[room]) for room in order}
    listed = "\n".join(["commands", *(_file(room) for room in order)])
    intro = "Every public name of the package, and every command. In the examples, `hf` is `import holdfast as hf`."
    index = f"# Reference\n\n{intro}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    return made | {"index.md": index}


@cache
def constants(room: str) -> dict[str, str]:
    """Constant -> the string below its assignment, for all files of a room."""
    files = sorted((PACKAGE / room).rglob("*.py")) if room else sorted(PACKAGE.glob("*.py"))
    return {name: text for file in files for name, text in _described(ast.parse(file.read_text(encoding="utf-8")))}


def _described(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_text and isinstance(targets[0], ast.Name):
            yield targets[0].id, inspect.cleandoc(str(after.value.value))


def _room(module: str) -> str:
    place = module.split(".")[1]
    return place if (PACKAGE / place).is_dir() else ""


def _file(room: str) -> str:
    return room or "basics"


def _page(room: str, found: list[Name]) -> str:
    title = TITLES.get(room, room.capitalize())
    intro = "" if not room else (inspect.getdoc(import_module(f"holdfast.{room}")) or "").split("\n\n")[0]
    aliases = [f"`hf.{alias}` is another name of `hf.{room}`." for alias in rooms().get(room, [])]
    intro = "\n\n".join([intro, *aliases])
    rows = [f"| {{py:obj}}`hf.{name.path} <{name.full}>` | {markdown(name.summary)} |" for name in found]
    table = "\n".join(["| name | what it is |", "|---|---|", *rows])
    entries = "\n\n".join(_entry(name) for name in found)
    return f"# {title}\n\n{markdown(intro)}\n\n{table}\n\n{entries}\n"


def _entry(name: Name) -> str:
    if name.kind == "data":
        body = "\n".join(f"   {line}" for line in converted(name.docstring.split("\n")))
        return f"```{{eval-rst}}\n.. py:data:: {name.full}\n\n{body}\n```"
    options = "\n   :members:" if name.kind in ("class", "module") else ""
    return f"```{{eval-rst}}\n.. auto{name.kind}:: {name.full}{options}\n```"
