"""The page in a real browser, opened from disk: it works, it is quiet, and nothing planted in it runs."""

import base64
import csv
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import BETTER, make_panels, make_rows, write_audit, write_run

from holdfast.report import RunView, count_votes, view_runs, write_report, write_vote
from holdfast.report.pictures import pictures
from holdfast.runs import Examples, find_runs, read_run, write_panels

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
)
DESKTOP, PHONE = (1280, 900), (390, 844)
PLANTED = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="no browser here: `apt-get install chromium chromium-driver` to run these tests",
    ),
]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium here: `pip install selenium`")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    found.set_page_load_timeout(60)
    yield found
    found.quit()


@pytest.fixture
def show(driver: Any) -> Iterator[Open]:
    """Open a file at a size and in a theme; afterwards the console must be clean and no request may have left."""

    def open_file(path: Path, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> Any:
        pretend(driver, size, dark=dark)
        driver.get_log("performance")
        driver.get(path.as_uri())
        wait(lambda: driver.execute_script("return document.documentElement.dataset.ready"))
        return driver

    yield open_file
    assert driver.get_log("browser") == []
    assert [address for address in requested(driver) if not address.startswith(("file:", "data:", "blob:"))] == []


def requested(driver: Any) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def resize(driver: Any, size: tuple[int, int]) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def pretend(driver: Any, size: tuple[int, int], *, dark: bool) -> None:
    """Show pages as on a screen of that size whose user prefers a dark or a light theme, and no animations."""
    resize(driver, size)
    wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def wait(ready: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := ready()) and time.monotonic() < end:
        time.sleep(0.05)
    assert found, "the page did not get there in time"
    return found


def find(driver: Any, selector: str) -> Any:
    return driver.find_element("css selector", selector)


def texts(driver: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])]"
    script += ".filter(element => !element.closest('[hidden]')).map(element => element.textContent)"
    found: list[str] = driver.execute_script(script, selector)
    return found


def set_value(driver: Any, name: str, value: str) -> None:
    """What a user's choice in a list or on a slider does."""
    script = "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
    driver.execute_script(f"{script} field.dispatchEvent(new Event('input', {{bubbles: true}}))", name, value)


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def keys() -> Any:
    from selenium.webdriver.common.keys import Keys

    return Keys


@pytest.fixture(scope="module")
def report_file(views: tuple[RunView, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(views, tmp_path_factory.mktemp("page") / "report.html")[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE, (360, 740)], ids=["desktop", "phone", "small"])
def test_fits_every_screen_and_theme(
    show: Open, report_file: Path, size: tuple[int, int], dark: bool, tmp_path: Path
) -> None:
    page = show(report_file, size, dark=dark)
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert page.execute_script("return window.scrollY") == 0
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 21, 23)" if dark else "rgb(251, 250, 248)")
    assert page.save_screenshot(str(tmp_path / "shot.png"))
    assert (tmp_path / "shot.png").stat().st_size > 20_000


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_audit(tmp_path_factory.mktemp("audit"), notes="the search ran out of time")
    return write_report(view_runs([read_run(run)]), run / "report.html")[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_of_an_audit_fits_every_screen_and_theme(
    show: Open, audit_file: Path, size: tuple[int, int], dark: bool
) -> None:
    page = show(audit_file, size, dark=dark)
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    for element in ("h1", ".figures", "#worst-title"):  # what a reader sees without scrolling, or nearly
        assert find(page, element).rect["y"] < 1.2 * size[1]


@pytest.fixture(scope="module")
def hardened_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, shares = tmp_path_factory.mktemp("hardened"), {"before": 0.3, "after": 0.5}
    runs = [write_audit(folder / part, kept=kept, model=f"nets:net, {part}") for part, kept in shares.items()]
    command = "holdfast harden --model nets:net --data street-signs --weights runs/h/weights.pth --out runs/h-2"
    found = replace(BETTER, files=("weights.pth", "weights.safetensors"), command=command)
    views = view_runs([read_run(run) for run in runs])
    return write_report(views, folder / "report.html", title="nets:net", before_after=found)[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_of_a_hardening_fits_every_screen_and_theme(
    show: Open, hardened_file: Path, size: tuple[int, int], dark: bool
) -> None:
    page = show(hardened_file, size, dark=dark)
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 21, 23)" if dark else "rgb(251, 250, 248)")
    assert find(page, "#before-after-title").text == BETTER.verdict
    assert find(page, "#before-after-title").rect["y"] < size[1]
    assert len(texts(page, "#before-after tbody tr")) == len(BETTER.figures)
    assert texts(page, "#before-after .findings li") == list(BETTER.gain_lines)


def test_overlay_map_and_image_by_keyboard(show: Open, audit_file: Path) -> None:
    page = show(audit_file)
    visible = "return [...document.querySelectorAll('.worst img')].filter(i => i.offsetWidth).map(i => i.className)"
    assert set(page.execute_script(visible)) == {"picture as-overlay"}
    page.execute_script("document.getElementById('show-overlay').focus()")
    press(page, keys().ARROW_RIGHT)
    assert page.execute_script(visible) == ["picture as-map"] * 6
    press(page, keys().ARROW_RIGHT)
    assert page.execute_script(visible) == ["picture as-image"] * 6
    find(page, ".switch label").click()
    assert page.execute_script(visible) == ["picture as-overlay"] * 6
    press(page, keys().TAB)
    assert page.switch_to.active_element.tag_name == "pre"


def test_the_page_of_an_audit_prints_on_two_pages(show: Open, audit_file: Path) -> None:
    page = show(audit_file, dark=True)
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2


@pytest.mark.parametrize("more", [2, 5])
def test_several_maps_print_on_two_pages(show: Open, tmp_path: Path, more: int) -> None:
    maps = dict.fromkeys(["gradient", "gradcam", "smoothgrad", "input-x-gradient", "gradcam++"][:more], 0.6)
    folder = write_audit(tmp_path / "audit", maps=maps)
    write_report(view_runs([read_run(folder)]), path := tmp_path / "report.html")
    page = show(path)
    assert find(page, "h1").text.startswith(f"Of {more + 1} explanations, ")
    assert len(texts(page, "#maps tbody tr")) == more + 1
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2


def test_pictures_by_mouse_and_keyboard(show: Open, report_file: Path, views: tuple[RunView, ...]) -> None:
    page, ids = show(report_file), [picture.id for picture in pictures(views)]
    assert texts(page, "#picker button") == [f"#{i}" for i in ids]
    find(page, "#picker button:nth-child(3)").click()
    assert f"example {ids[2]}," in find(page, "#picture-text").text
    press(page, keys().ARROW_RIGHT)
    assert f"example {ids[3]}," in find(page, "#picture-text").text
    assert page.switch_to.active_element.get_attribute("aria-checked") == "true"
    press(page, keys().HOME, keys().ARROW_LEFT)
    assert f"example {ids[7]}," in find(page, "#picture-text").text
    assert texts(page, "#cards h3") == ["natural", "madry", "ig_sum_norm", "erar", "erar_plus"]


def test_slider_moves_the_edge_of_every_picture(show: Open, report_file: Path) -> None:
    page = show(report_file)
    page.execute_script("document.getElementById('mix').focus()")
    press(page, keys().END)
    clips = "return [...document.querySelectorAll('.stack canvas + canvas')].map(c => c.style.clipPath)"
    assert set(page.execute_script(clips)) == {"inset(0px 0px 0px 0%)"}
    press(page, keys().HOME)
    assert set(page.execute_script(clips)) == {"inset(0px 0px 0px 100%)"}
    find(page, "[data-mode=fade]").click()
    assert set(page.execute_script(clips)) == {"none"}
    find(page, "[data-mode=side]").click()
    assert len(texts(page, "#cards figure")) == 5 * 4
    assert not find(page, "#mix").is_enabled()


def test_maps_are_drawn_in_colour(show: Open, report_file: Path) -> None:
    page = show(report_file)
    script = """const c = document.querySelectorAll('#cards article')[1].querySelectorAll('canvas')[2];
        const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let warm = 0; for (let i = 0; i < p.length; i += 4) warm += p[i] > p[i + 2] + 40; return [c.width, warm]"""
    width, warm = wait(lambda: page.execute_script(script))
    assert width == 28
    assert warm > 20


def test_table_sorts_filters_and_obeys_the_keyboard(show: Open, report_file: Path) -> None:
    page = show(report_file)
    assert find(page, "#row-count").text == "680 of 1,360 rows"
    first = texts(page, "#grid-body .row:first-child div")
    assert first[6] == "0.0 %"  # most damage first
    find(page, "[data-name=top_k] button").click()
    assert find(page, "[data-name=top_k]").get_attribute("aria-sort") == "descending"
    set_value(page, "filter-outcome", "2")
    assert set(texts(page, "#grid-body .row > :nth-child(4)")) == {"label lost"}
    find(page, "#filter-reset").click()
    set_value(page, "filter-damage", "20")
    shown = texts(page, "#grid-body .row > :nth-child(7)")
    assert shown
    assert all(float(text.split()[0]) <= 20.01 for text in shown)
    find(page, "#filter-reset").click()
    find(page, "[data-name=id] button").click()
    page.execute_script("document.getElementById('grid').focus()")
    press(page, keys().ARROW_DOWN, keys().ARROW_DOWN, keys().ARROW_UP)
    assert find(page, "#grid").get_attribute("aria-activedescendant") == "row-0"
    assert "Centre shift" in find(page, "#detail").text
    press(page, keys().ENTER)
    assert page.switch_to.active_element.get_attribute("role") == "radio"
    page.execute_script("document.getElementById('grid').focus()")
    press(page, keys().END)
    assert find(page, "#grid").get_attribute("aria-activedescendant") == "row-679"
    assert "No pictures were kept" in find(page, "#detail").text


def test_focus_can_be_seen(show: Open, report_file: Path) -> None:
    page = show(report_file)
    press(page, keys().TAB)
    assert page.switch_to.active_element.text == "Skip to the results"
    press(page, keys().TAB)
    outline = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_planted_scripts_do_not_run(show: Open, tmp_path: Path) -> None:
    panels = make_panels(0.5, 0, count=2)
    named = type(panels)(**{**vars(panels), "names": (PLANTED, PLANTED)})
    folder = tmp_path / "<script>document.title='taken'<"
    write_run(folder, method=PLANTED, dataset=PLANTED, preset=PLANTED, limit=PLANTED, n=20, class_names=(PLANTED,) * 10)
    write_panels(folder / "panels.npz", named)
    (folder / "config.toml").write_text(PLANTED)
    twin = write_run(tmp_path / "twin", method="b", dataset=PLANTED, n=20, panels=panels)
    views = view_runs([read_run(folder), read_run(twin)])
    for path in (
        *write_report(views, tmp_path / "report.html", title="T"),
        write_vote(views, tmp_path / "vote.html", title="T")[0],
    ):
        page = show(path)
        for button in page.find_elements("css selector", "#picker button, #grid-head button, #on"):
            page.execute_script("arguments[0].click()", button)
        time.sleep(0.3)
        assert page.title == "T"
        assert page.execute_script("return document.querySelectorAll('script').length") == 2
        assert page.execute_script("return document.querySelectorAll('[onerror]').length") == 0


def test_policy_stops_a_request_that_got_in_anyway(driver: Any, report_file: Path) -> None:
    driver.get(report_file.as_uri())
    driver.execute_script(
        "const i = document.createElement('img'); i.src = 'https://example.org/x.png'; document.body.append(i)"
    )
    complaint = wait(lambda: [e["message"] for e in driver.get_log("browser")])
    assert any("Content Security Policy" in text for text in complaint)
    driver.get_log("performance")


def test_vote_is_saved_as_csv(show: Open, driver: Any, views: tuple[RunView, ...], tmp_path: Path) -> None:
    path, key = write_vote(views, tmp_path / "vote.html")
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page = show(path, PHONE)
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    for name in ("natural", "erar", "madry"):
        assert name not in find(page, "body").text
    press(page, "b", "0")
    find(page, "#choices button:first-child").click()
    press(page, keys().ARROW_LEFT)
    assert find(page, "#choices button:first-child").get_attribute("aria-pressed") == "true"
    assert "3 voted, not saved yet" in find(page, "#status").text
    find(page, "#save").click()
    saved = tmp_path / "votes.csv"
    wait(lambda: saved.exists() and saved.stat().st_size)
    rows = list(csv.DictReader(saved.read_text().splitlines()))
    assert [row["choice"] for row in rows] == ["B", "undecided", "A"]
    assert rows[0]["key"] == rows[0]["shown"].split()[1]
    shares = count_votes([saved], key)
    assert sum(stat.median or 0 for stat in shares.values()) == pytest.approx(2 / 3)


def test_fifty_runs_and_a_hundred_thousand_rows_open(show: Open, tmp_path: Path) -> None:
    first = write_run(tmp_path / "runs" / "run00", n=30, panels=make_panels(0.5, 0, count=2))
    rows = make_rows(0.5, 1000, 0)
    for number in range(50):
        folder = tmp_path / "runs" / f"run{number:02d}"
        if number:
            shutil.copytree(first, folder)
        (folder / "examples.csv").unlink()
        Examples(folder / "examples.csv").append(rows)
    path = tmp_path / "report.html"
    write_report(view_runs(find_runs([tmp_path / "runs"])[0]), path)
    assert path.stat().st_size < 20_000_000
    page = show(path)
    assert wait(lambda: find(page, "#row-count").text) == "50,000 of 100,000 rows"
