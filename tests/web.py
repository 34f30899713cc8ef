"""A local web server that can misbehave."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.data.sources.download import Download

QUICK = Download(allow_local_http=True, pause=0.0, timeout=5.0)


@dataclass
class Server:
    """Serves `files`; `drops` lists after how many bytes to cut successive answers; `ranges` logs what was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    drops: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    ranges: list[str | None] = field(default_factory=list)
    honours_range: bool = True
    status: int | None = None
    answer_from: int | None = None

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        name = handler.path.lstrip("/")
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        if name in self.redirects:
            handler.send_response(302)
            handler.send_header("Location", self.redirects[name])
            handler.end_headers()
        elif self.status or name not in self.files:
            handler.send_error(self.status or 404)
        else:
            self._send(handler, self.files[name], asked if self.honours_range else None)

    def _send(self, handler: http.server.BaseHTTPRequestHandler, data: bytes, asked: str | None) -> None:
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if start >= len(data):
            handler.send_error(416)
            return
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        if asked:
            first = start if self.answer_from is None else self.answer_from
            handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        handler.end_headers()
        handler.wfile.write(data[start : start + self.drops.pop(0)] if self.drops else data[start:])


@contextmanager
def serving(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The address of a local web server that gives every request to `answer`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that hangs up or dies is part of the tests."""

    with Quiet(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()
        thread.join()
