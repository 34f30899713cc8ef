"""kill -9 at random moments of train, evaluate, reproduce and data fetch: resumed, each ends as if nothing had been.

`make test` kills each of them three times, `make test-long` fifty times.
"""

import gzip
import http.server
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults import work
from tests.web import Server, serving

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

STATES = 5 if work.LONG else 1
"""In how many different states a job must have died at least, or the kills have shown nothing."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert work.finish(work.train, folder) == 0, work.said(folder)
    return folder


def kill_again_and_again(
    job: Callable[..., None], folder: Path, *arguments: Any, origin: Path | None = None
) -> tuple[int, dict[str, Any]]:
    """Kill the job at random moments and start it again, until there were enough kills; then let it end.

    Returns in how many different states it died, and the result. A job that ends before it is killed has to have the
    right result too, and begins anew.
    """
    moments, kills, states, finished = random.Random(1), 0, set(), None
    began = time.monotonic()
    work.renew(folder, origin)
    assert work.finish(job, folder, *arguments) == 0, work.said(folder)
    seconds = time.monotonic() - began
    expected = work.result(folder)
    work.renew(folder, origin)
    while kills < work.KILLS:
        process = work.start(job, folder, *arguments)
        process.join(moments.uniform(0, 0.8 * seconds))
        if process.exitcode is None:
            process.kill()
            process.join()
            kills += 1
            work.check_whole(folder)
            states.add(tuple(sorted((str(p.relative_to(folder)), p.stat().st_size) for p in folder.rglob("*"))))
            continue
        assert process.exitcode == 0, work.said(folder)
        assert work.result(folder) == expected
        work.renew(folder, origin)
    assert work.finish(job, folder, *arguments) == 0, work.said(folder)
    finished = work.result(folder)
    assert finished.keys() == expected.keys()
    for name in expected:
        assert finished[name] == expected[name], name
    assert work.unfinished(folder) == []
    return len(states), finished


def test_train(tmp_path: Path) -> None:
    states, finished = kill_again_and_again(work.train, tmp_path / "run")
    assert states >= STATES
    assert "weights.safetensors" in finished


def test_evaluate(whole: Path, tmp_path: Path) -> None:
    states, finished = kill_again_and_again(work.evaluate, tmp_path / "run", origin=whole)
    assert states >= STATES
    assert {"examples.csv", "accuracy.csv", "summary.json", "panels.npz"} <= finished.keys()


def test_reproduce(tmp_path: Path) -> None:
    states, finished = kill_again_and_again(work.reproduce, tmp_path / "runs")
    assert states >= STATES
    assert any(name.startswith("table-digits") for name in finished)
    assert {f"digits/{method}/weights.safetensors" for method in ("natural", "madry")} <= finished.keys()


@pytest.fixture
def slow_server() -> Iterator[str]:
    """Serves the tiny dataset a piece at a time, so that a kill falls into the middle of a download."""
    state = Server(files={f"{name}.gz": gzip.compress(data) for name, data in work.tiny_data().files().items()})

    def slowly(handler: http.server.BaseHTTPRequestHandler) -> None:
        write = handler.wfile.write

        def piece_by_piece(data: bytes) -> None:
            for at in range(0, len(data), 8192):
                write(data[at : at + 8192])
                time.sleep(0.02)

        handler.wfile.write = piece_by_piece  # type: ignore[method-assign]
        state.answer(handler)

    with serving(slowly) as url:
        yield url


def test_data_fetch(slow_server: str, tmp_path: Path) -> None:
    states, finished = kill_again_and_again(work.fetch, tmp_path / "cache", slow_server)
    assert states >= STATES
    assert set(finished) == {"mnist-train.npz", "mnist-test.npz"}
