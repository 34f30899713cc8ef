"""Documents of the repository as pages of the site: each is copied, and its links lead to the pages of the site.

A link to a file that is not on the site becomes plain code, since readers of the site do not have the repository.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.zoo import ZooNetwork

ROOT = Path(__file__).parents[3]
NETWORKS = ROOT / "src" / "holdfast" / "zoo" / "networks"
SHORT = {
    "architecture": "Architecture",
    "equations": "Equations and tests",
    "paper-notes": "Paper, released code, ours",
    "findings": "Findings",
    "recipes": "How the recipes were found",
    "performance": "Speed",
    "scaling": "Several machines",
    "reliability": "Reliability",
    "security": "Security",
    "contributing": "Contributing",
    "changelog": "Changelog",
}
"""Page of the project -> its title in the menu; other pages come first, under their own titles."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def documents() -> dict[Path, str]:
    """Repository file -> its page on the site, without the suffix."""
    found = {path: f"project/{path.stem}" for path in sorted((ROOT / "docs").glob("*.md"))}
    found |= {
        ROOT / name: f"project/{Path(name).stem.lower()}" for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    }
    found[ROOT / "results" / "README.md"] = "project/results"
    found[ROOT / "results" / "harden" / "README.md"] = "project/hardened"
    found |= {path: f"zoo/{_card_name(path)}" for path in sorted(NETWORKS.glob("*/*/card.md"))}
    return found


def pages() -> dict[str, bytes]:
    """Path on the site -> content, of all documents and of the pictures in them."""
    known = documents()
    made: dict[str, bytes] = {}
    for path, page in known.items():
        text, pictures = relinked(path.read_text(encoding="utf-8"), path, page, known)
        made[f"{page}.md"] = text.encode()
        made |= pictures
    project = sorted(path.removeprefix("project/") for path in known.values() if path.startswith("project/"))
    made["project/index.md"] = _project_index([name for name in project if name != "results"]).encode()
    made["zoo/index.md"] = _zoo_index(sorted(page for page in known.values() if page.startswith("zoo/"))).encode()
    return made


def relinked(text: str, path: Path, page: str, known: dict[Path, str]) -> tuple[str, dict[str, bytes]]:
    """The text of the document at `path` with the links of its page, and the pictures that go with it."""
    pictures: dict[str, bytes] = {}

    def replaced(match: re.Match[str]) -> str:
        mark, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        file = (path.parent / target).resolve()
        if "://" in target or not target:
            return match[0]
        if mark:
            pictures[f"{os.path.dirname(page)}/{file.name}"] = file.read_bytes()
            return f"![{label}]({file.name})"
        if file in known:
            return f"[{_title(label)}]({os.path.relpath(known[file], os.path.dirname(page))}.md{anchor})"
        if file.name == "report.html":
            return f'<a href="{os.path.relpath("report.html", os.path.dirname(page))}">{label}</a>'
        return label if label.startswith("`") else f"`{label}`"

    return LINK.sub(replaced, text), pictures


def _project_index(names: list[str]) -> str:
    entries = [
        *(name for name in names if name not in SHORT),
        *(f"{t} <{name}>" for name, t in SHORT.items() if name in names),
    ]
    listed = "\n".join(entries)
    return (
        "# The project\n\nHow holdfast is built, how its results were found, and the tests behind its promises.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )


def _title(label: str) -> str:
    """The text of a link: `docs/recipes.md` on the site is called "recipes"."""
    return Path(label).stem.lower() if label.endswith(".md") else label


def _card_name(path: Path) -> str:
    return "-".join(path.parent.parts[-2:])


def _zoo_index(pages: list[str]) -> str:
    from holdfast.zoo import list as networks

    rows = [_zoo_row(network) for network in networks()]
    listed = "\n".join(Path(page).name for page in pages)
    return f"""# Zoo

Trained networks that load by name:

    import holdfast as hf

    model = hf.load("zoo:gtsrb/madry")
    print(hf.zoo.card("gtsrb/madry"))

Small networks ship with the package. The others are downloaded from the release of the installed version, or from the
folder or address in the environment variable `HOLDFAST_ZOO`, and must match their SHA-256. A version that was not
installed from a release needs `HOLDFAST_ZOO` for them; in a copy of the repository, `python -m holdfast.zoo.build
results --assets FOLDER` writes the files for it.

`holdfast audit --model zoo:NAME` audits a network; `holdfast zoo list` prints this table. Top-k and Kendall are medians
under the strongest attack; a dash means that it has not been measured. The cards have all figures with their n and
intervals.

| name | network | accuracy | under PGD | top-k | Kendall | weights |
|---|---|--:|--:|--:|--:|---|
{chr(10).join(rows)}

```{{toctree}}
:hidden:

{listed}
```
"""


def _zoo_row(network: "ZooNetwork") -> str:
    top_k, kendall = network.under_strongest
    cells = (
        f"[{network.name}]({network.name.replace('/', '-')}.md)",
        f"`{network.network}`",
        *map(_percent, (network.natural_accuracy, network.pgd_accuracy, top_k)),
        "-" if kendall is None else f"{kendall:.3f}",
        "in the package" if network.packaged else f"{network.bytes / 1e6:.1f} MB",
    )
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}".replace("%", " %")
