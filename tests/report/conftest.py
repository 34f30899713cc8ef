"""Fixtures of the report's tests."""

from pathlib import Path

import pytest
from tests.report.runs import write_demo

from holdfast.report import RunView, view_runs
from holdfast.runs import find_runs


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The run directories of the demo, written once."""
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def views(demo: list[Path]) -> tuple[RunView, ...]:
    """The demo as the report sees it."""
    return view_runs(find_runs(demo)[0])
