"""Download one file over https.

An interrupted transfer resumes, the size is limited, and the file gets its final name only when it is complete.
"""

import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from holdfast.errors import DataError, expected
from holdfast.storage.files import disk_errors, sync_file

Progress = Callable[[str, int, int | None], None]
"""Called with (file name, bytes received so far, total bytes or None if unknown)."""

_CHUNK = 1 << 18
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TRY_AGAIN = (408, 425, 429)


@dataclass(frozen=True, kw_only=True)
class Download:
    """Download settings: size limit in bytes, server timeout in seconds, attempts, and the pause after the first one.

    The pause doubles after each further attempt. `allow_local_http` permits plain http to this machine, for tests and
    local mirrors.
    """

    max_bytes: int = 1 << 30
    timeout: float = 30.0
    attempts: int = 4
    pause: float = 0.5
    allow_local_http: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.max_bytes < 1:
            raise expected("attempts >= 1 and max_bytes >= 1", got=(self.attempts, self.max_bytes))

    def __call__(self, url: str, target: Path) -> None:
        """Download `url` to `target`. An interrupted transfer leaves `target.part`, from which the next one resumes."""
        self.check(url)
        part = target.with_name(target.name + ".part")
        for attempt in range(self.attempts):
            try:
                self._transfer(url, part)
                break
            except (OSError, http.client.HTTPException) as error:
                if _is_final(error) or attempt == self.attempts - 1:
                    raise DataError(f"cannot fetch {url}: {_reason(error)}") from error
                time.sleep(self.pause * 2**attempt)
        with disk_errors(target):
            sync_file(part)
            os.replace(part, target)

    def check(self, url: str) -> None:
        """Reject any address but https (or local http where allowed)."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise DataError(f"expected an https address, found {url[:200]} ({error}).") from error
        local = self.allow_local_http and parts.scheme == "http" and parts.hostname in _LOCAL
        if parts.scheme != "https" and not local:
            raise DataError(f"expected an https address, found {url}; data is downloaded over https only.")

    def _transfer(self, url: str, part: Path) -> None:
        have = part.stat().st_size if part.exists() else 0
        headers = {"User-Agent": "holdfast", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        opener = urllib.request.build_opener(_Redirects(self))
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=self.timeout) as response:
                self._receive(response, part, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)  # the partial file does not belong to this URL: start over
            raise

    def _receive(self, response: Any, part: Path, have: int) -> None:
        start, total = _span(response.headers, response.status, have)
        if start not in (0, have):
            part.unlink(missing_ok=True)
            raise ConnectionError(f"requested bytes from {have}, received bytes from {start}")
        self._bound(total or 0, part)
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if start else "wb") as file:
            received = self._copy(response, file, part, start, total)
        if total is not None and received != total:
            raise ConnectionError(f"the connection broke after {received} of {total} bytes")

    def _copy(self, response: Any, file: IO[bytes], part: Path, done: int, total: int | None) -> int:
        while chunk := response.read(_CHUNK):
            done += len(chunk)
            self._bound(done, part)
            file.write(chunk)
            if self.progress is not None:
                self.progress(part.name.removesuffix(".part"), done, total)
        return done

    def _bound(self, size: int, part: Path) -> None:
        if size > self.max_bytes:
            part.unlink(missing_ok=True)
            raise DataError(
                f"expected at most {self.max_bytes} bytes, found {size} or more; this is not the dataset's file."
            )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to addresses that the settings allow."""

    def __init__(self, settings: Download) -> None:
        self.settings = settings

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        try:
            self.settings.check(newurl)
        except DataError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _span(headers: Any, status: int, have: int) -> tuple[int, int | None]:
    """Offset of the first byte sent, and size of the whole file; a server that ignores Range sends all of it."""
    if have and status == http.HTTPStatus.PARTIAL_CONTENT:
        span, _, whole = headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        first = _size(span.partition("-")[0])
        return (-1 if first is None else first), _size(whole)
    return 0, _size(headers.get("Content-Length", ""))


def _size(text: str) -> int | None:
    """Parse a byte count from a header; None if it is not a valid number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _is_final(error: Exception) -> bool:
    """Whether a retry is useless: the host does not exist, or the server rejected the request."""
    if not isinstance(error, urllib.error.HTTPError):
        return isinstance(getattr(error, "reason", None), socket.gaierror)
    retry = error.code in _TRY_AGAIN or error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    return error.code < 500 and not retry


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return str(error.reason)
    return str(error) or type(error).__name__
