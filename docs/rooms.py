"""Draw the rooms of holdfast and who imports whom, from the real imports: python docs/rooms.py writes docs/rooms.svg.

An arrow points from a room to one that it imports; arrows that follow from others are left out. A test compares the
committed picture with what this script draws.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
PICTURE = ROOT / "docs" / "rooms.svg"
WIDTH, ROW, COLUMN, BOX_W, BOX_H = 980, 92, 166, 128, 44
ROOMS: dict[str, tuple[float, str]] = {
    "storage": (1, "files, locks"),
    "engine": (3, "passes, gradients"),
    "metrics": (2, "maps compared"),
    "runs": (1, "rows, summary"),
    "data": (5, "datasets"),
    "models": (3.4, "networks"),
    "attribution": (3.4, "maps"),
    "losses": (3, "per example"),
    "attacks": (3, "PGD, IFIA"),
    "certificates": (4.2, "what is proved"),
    "objective": (3, "what is minimised"),
    "recipes": (3, "named methods"),
    "config": (2, "presets"),
    "training": (4.1, "the loop"),
    "evaluation": (4, "protocol, audit"),
    "report": (0, "tables, page"),
    "zoo": (0, "trained networks"),
    "experiment": (3.1, "config to run"),
    "bench": (5, "speed"),
    "commands": (1.2, "the command line"),
}
"""Room -> its column, and a word about it; how high it stands follows from its imports."""


def room_imports() -> dict[str, set[str]]:
    """Room -> rooms that its files import, at the top or inside a function."""
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    found: dict[str, set[str]] = {room: set() for room in sorted(rooms)}
    for room in rooms:
        for path in (SOURCE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                found[room] |= {name.split(".")[1] for name in names if name.startswith("holdfast.")} & rooms
    return {room: others - {room} for room, others in found.items()}


def reach(room: str, edges: dict[str, set[str]]) -> set[str]:
    """All rooms below a room."""
    below = set(edges[room])
    for other in edges[room]:
        below |= reach(other, edges)
    return below


def direct(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The edges without those that follow from others."""
    return {
        room: {other for other in others if not any(other in reach(third, edges) for third in others - {other})}
        for room, others in edges.items()
    }


def levels(edges: dict[str, set[str]]) -> dict[str, int]:
    """How many rooms lie below a room, one under the other."""
    found: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in found:
            found[room] = 1 + max((level(other) for other in edges[room]), default=-1)
        return found[room]

    for room in edges:
        level(room)
    return found


def places(edges: dict[str, set[str]]) -> dict[str, tuple[float, float]]:
    """The centre of each box."""
    level_of = levels(edges)
    highest = max(level_of.values())
    return {room: (ROOMS[room][0] * COLUMN + 75, (highest - level_of[room]) * ROW + 40) for room in edges}


def picture() -> str:
    """The drawing as SVG; readable on a light and on a dark page."""
    edges = direct(room_imports())
    at = places(edges)
    height = max(y for _, y in at.values()) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif">',
        "<style>.box{fill:#eef4fb;stroke:#2b6cb0}.name{fill:#1a365d;font-size:15px;font-weight:600}"
        ".word{fill:#4a5568;font-size:11px}.edge{fill:none;stroke:#718096;stroke-width:1.3}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#718096"/></marker></defs>',
    ]
    for room, others in edges.items():
        x, y = at[room]
        for other in sorted(others):
            to_x, to_y = at[other]
            start, end = y + BOX_H / 2, to_y - BOX_H / 2 - 2
            middle = (start + end) / 2
            path = f"M{x:.0f} {start:.0f}C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {end:.0f}"
            lines.append(f'<path class="edge" d="{path}" marker-end="url(#tip)"/>')
    for room, (x, y) in at.items():
        left, top = x - BOX_W / 2, y - BOX_H / 2
        lines += [
            f'<rect class="box" x="{left:.0f}" y="{top:.0f}" width="{BOX_W}" height="{BOX_H}" rx="7"/>',
            f'<text class="name" x="{x:.0f}" y="{y - 2:.0f}" text-anchor="middle">{room}</text>',
            f'<text class="word" x="{x:.0f}" y="{y + 14:.0f}" text-anchor="middle">{ROOMS[room][1]}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
