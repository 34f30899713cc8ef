"""The built site: `make docs` builds it, sets HOLDFAST_SITE and runs these tests."""

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.report.test_browser import CHROMIUM, DESKTOP, DRIVER, PHONE, driver, pretend  # noqa: F401 - a fixture
from tests.site.parts import part

import holdfast

SITE = Path(os.environ.get("HOLDFAST_SITE", "/nowhere")).resolve()
pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built here: run `make docs`")


@dataclass
class Page(HTMLParser):
    """One page: its anchors, its links, what it loads, and how many equations it has."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    equations: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self.equations += tag == "math"
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif found.get("src") or (tag == "link" and found.get("href")):
            self.loaded.append(found.get("src") or found["href"])


@cache
def page(path: Path) -> Page:
    read = Page()
    read.feed(path.read_text(encoding="utf-8"))
    return read


def pages() -> Iterator[Path]:
    return (path for path in sorted(SITE.rglob("*.html")) if path.name != "report.html")


def test_every_link_and_anchor_leads_somewhere() -> None:
    broken = []
    checked = 0
    for path in pages():
        for link in [*page(path).links, *page(path).loaded]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            checked += 1
            is_page = target.suffix == ".html" and target.name != "report.html"
            if not target.is_file() or (parts.fragment and is_page and unquote(parts.fragment) not in anchors(target)):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert checked > 1000
    assert broken == []


def anchors(path: Path) -> set[str]:
    return {"", *page(path).anchors}


def test_nothing_is_loaded_from_another_host() -> None:
    for path in pages():
        assert [url for url in page(path).loaded if urlsplit(url).netloc] == [], path
    for path in [*SITE.rglob("*.css"), *(SITE / "_static").glob("*.js")]:
        assert re.findall(r"(?:url\(|import |src\s*=\s*)[\"']?(?:https?:)?//[^)\"'\s]+", path.read_text()) == [], path


def test_every_public_name_is_in_the_inventory() -> None:
    raw = (SITE / "objects.inv").read_bytes()
    names = {line.split(" ")[0] for line in zlib.decompress(raw.split(b"\n", 4)[4]).decode().splitlines()}
    assert {name.full for name in part("reference").names()} <= names
    assert "holdfast.audit" in names


def test_equations_are_drawn_without_a_script() -> None:
    for name, least in (("explanations", 20), ("attacks", 8), ("methods", 40), ("measuring", 5)):
        read = page(SITE / "concepts" / f"{name}.html")
        assert read.equations >= least
    assert not list(SITE.rglob("*mathjax*"))


def test_tutorials_show_what_they_print() -> None:
    audit = (SITE / "tutorials" / "audit.html").read_text()
    assert "random noise" in audit
    assert "cell_output" in audit
    assert f"holdfast {holdfast.__version__}" in (SITE / "index.html").read_text()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no browser here")
def test_the_leaderboard_sorts_and_filters(driver: Any) -> None:  # noqa: F811
    driver.get((SITE / "results.html").as_uri())
    heads = driver.find_elements("css selector", "table.leaderboard thead tr:last-child th")
    column = next(i for i, head in enumerate(heads) if head.text.startswith("PGD"))

    def values() -> list[float]:
        script = "return [...document.querySelectorAll('table.leaderboard tbody tr')].filter(r => !r.hidden)"
        return [float(v) for v in driver.execute_script(f"{script}.map(r => r.cells[{column}].dataset.value)") if v]

    button = heads[column].find_element("css selector", "button")
    button.click()
    assert values() == sorted(values(), reverse=True)
    assert heads[column].get_attribute("aria-sort") == "descending"
    button.click()
    assert values() == sorted(values())
    everything = len(values())
    driver.find_element("xpath", "//div[@class='leaderboard-choice']/button[text()='mnist']").click()
    assert 0 < len(values()) < everything
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


READ = (
    "index",
    "start",
    "results",
    "concepts/measuring",
    "tutorials/report",
    "reference/attribution",
    "zoo/gtsrb-madry",
)
"""Pages of every kind: text, tables, equations, code with its output, names of the package, a model card."""

COLOURS = """
    const behind = element => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            if (colour.startsWith('rgb(')) return colour;  // a tint above it is too faint to matter
        }
    };
    return [...document.querySelectorAll('article :is(h1, h2, p, li, td, dt, a)')]
        .filter(element => element.innerText && element.offsetParent)
        .map(element => [getComputedStyle(element).color, behind(element)]);
"""


def luminance(colour: str) -> float:
    """The relative luminance of a colour rgb(r, g, b), as WCAG defines it."""
    shares = [int(value) / 255 for value in re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour).groups()]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no browser here")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", READ)
def test_pages_fit_every_screen_and_can_be_read_in_every_theme(
    driver: Any,  # noqa: F811
    name: str,
    size: tuple[int, int],
    dark: bool,
) -> None:
    pretend(driver, size, dark=dark)
    driver.get((SITE / f"{name}.html").as_uri())
    assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
    pairs = {tuple(pair) for pair in driver.execute_script(COLOURS)}
    assert pairs
    for text, background in pairs:
        low, high = sorted(map(luminance, (text, background)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {background}"
        assert (luminance(background) < 0.2) == dark
