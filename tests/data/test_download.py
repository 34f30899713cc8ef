"""Downloads over a local server that breaks off, redirects, lies and refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.data.sources.download import Download, _span
from holdfast.errors import DataError, InputError

DATA = bytes(range(256)) * 4000


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "sub" / "file"


def test_whole_file_with_progress(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    seen: list[tuple[str, int, int | None]] = []
    replace(quick, progress=lambda *args: seen.append(args))(server.url + "file", target)
    assert target.read_bytes() == DATA
    assert seen[-1] == ("file", len(DATA), len(DATA))
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_broken_download_is_resumed(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    server.drops = [1000, 50_000]
    quick(server.url + "file", target)
    assert target.read_bytes() == DATA
    assert server.ranges == [None, "bytes=1000-", "bytes=51000-"]


def test_resume_in_a_later_run(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    server.drops = [1000]
    with pytest.raises(DataError, match=f"broke after 1000 of {len(DATA)} bytes"):
        replace(quick, attempts=1)(server.url + "file", target)
    assert not target.exists()
    assert target.with_name("file.part").stat().st_size == 1000
    quick(server.url + "file", target)
    assert target.read_bytes() == DATA


def test_server_without_ranges_restarts(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    server.honours_range = False
    server.drops = [1000]
    quick(server.url + "file", target)
    assert target.read_bytes() == DATA


def test_wrong_range_restarts(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    server.drops = [1000]
    server.answer_from = 7
    quick(server.url + "file", target)
    assert server.ranges == [None, "bytes=1000-", None]
    assert target.read_bytes() == DATA


def test_piece_longer_than_the_file_restarts(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(DATA + b"more")
    quick(server.url + "file", target)
    assert target.read_bytes() == DATA


def test_refusal_is_final_and_failure_is_tried_again(server: Any, quick: Download, target: Path) -> None:
    with pytest.raises(DataError, match="404"):
        quick(server.url + "file", target)
    assert len(server.ranges) == 1
    server.status = 503
    with pytest.raises(DataError, match="503"):
        quick(server.url + "file", target)
    assert len(server.ranges) == 1 + quick.attempts


def test_size_limit(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    with pytest.raises(DataError, match="at most 999 bytes"):
        replace(quick, max_bytes=999)(server.url + "file", target)
    assert not target.parent.exists()


@pytest.mark.parametrize("url", ["http://example.org/a", "ftp://example.org/a", "file:///a", "http://127.0.0.1/a"])
def test_https_only(url: str, target: Path) -> None:
    with pytest.raises(DataError, match="https only"):
        Download()(url, target)


def test_local_http_only_where_allowed(quick: Download, target: Path) -> None:
    with pytest.raises(DataError, match="https only"):
        quick("http://example.org/a", target)


def test_redirects_keep_the_scheme(server: Any, quick: Download, target: Path) -> None:
    server.files["file"] = DATA
    server.redirects = {"good": server.url + "file", "bad": "http://example.org/file", "worse": "file:///etc/passwd"}
    quick(server.url + "good", target)
    assert target.read_bytes() == DATA
    for name in ("bad", "worse"):
        with pytest.raises(DataError, match=r"https only|not allowed"):
            quick(server.url + name, target)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="attempts >= 1"):
        Download(attempts=0)


def test_what_a_server_says_about_sizes_is_not_believed(target: Path) -> None:
    """Numbers that no file has, and addresses that are none, are no crash."""
    for size in ("9" * 5000, "²", "-1", "", "1e3"):
        assert _span({"Content-Length": size}, 200, 0) == (0, None)
        assert _span({"Content-Range": f"bytes {size}-/{size}"}, 206, 5) == (-1, None)
    with pytest.raises(DataError, match="https address"):
        Download()("https://[::1/a", target)
