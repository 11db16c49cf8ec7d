"""The page of the lab, and a small server on loopback that plays documents for it.

It serves the files of the page, the scenarios (``GET /scenarios``), plays (``POST /play``), and the
page as one file that holds them (``POST /export``).
Other pages in the same browser cannot use it: a request must name this server as its ``Host`` and,
if it has an ``Origin``, come from this server; and only JSON is read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from .. import __version__
from ..errors import FencelockError
from ..web.files import File, of_page
from . import scenarios as builtin
from .palette import palette
from .recorded import exported
from .universe import played

LOOPBACK = "127.0.0.1"
BODY_MAX = 1_000_000
IDLE_S = 60.0
NESTED = "this is nested too deeply"


class PageServer(ThreadingHTTPServer):
    """Serves the page until it is shut down. Documents are played one after the other."""

    daemon_threads = True

    def __init__(self, port: int, scenarios: Mapping[str, Mapping[str, Any]], first: str) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.port = int(self.server_address[1])
        self.url = f"http://{LOOPBACK}:{self.port}/"
        self.scenarios = listed(scenarios, first)
        self.playing = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Report nothing: the browser went away."""


def listed(scenarios: Mapping[str, Mapping[str, Any]], first: str) -> dict[str, Any]:
    """Return what a page requests first: the scenarios by name, the version, and the faults."""
    known = builtin()
    found = [
        {"name": name, "own": name not in known, "document": one} for name, one in scenarios.items()
    ]
    facts: dict[str, Any] = {"first": first, "version": __version__, "faults": palette()}
    return facts | {"scenarios": found}


class _Refused(Exception):
    """A request that is refused, with the status of the response."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "fencelock"
    sys_version = ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        def post() -> None:
            body = self._body()  # read even if the call is refused, or its answer might be lost
            self._check_caller()
            self._post(body)

        self._guarded(post)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _guarded(self, answer: Callable[[], None]) -> None:
        try:
            answer()
        except _Refused as refused:
            self.close_connection = True
            self._json({"error": str(refused)}, refused.status)
        except OSError:
            raise  # the browser went away
        except Exception as error:
            self.close_connection = True
            self._json({"error": f"a defect of the lab, please report it: {error!r}"}, 500)

    def _check_caller(self) -> None:
        port = cast("PageServer", self.server).port
        hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in hosts:
            raise _Refused(421, f"this server is {hosts[0]}, not {host[:100]!r}")
        if origin is not None and origin != f"http://{host}":
            raise _Refused(403, "pages of other servers may not call this one")

    def _get(self) -> None:
        self._check_caller()
        if self.path == "/scenarios":
            self._json(cast("PageServer", self.server).scenarios)
            return
        file = _files().get(self.path)
        if file is None:
            raise _Refused(404, "there is no such file")
        if self.headers.get("If-None-Match") == file.tag:
            self._send(b"", 304, file.headers)
        else:
            self._send(file.data, 200, file.headers)

    def _post(self, body: bytes) -> None:
        if self.path not in ("/play", "/export"):
            raise _Refused(404, "there is no such call")
        if self.headers.get_content_type() != "application/json":
            raise _Refused(415, "a document is application/json")
        try:
            call = json.loads(body)
        except ValueError as error:
            raise _Refused(400, f"this is not JSON: {error}") from None
        except RecursionError:
            raise _Refused(400, NESTED) from None
        try:
            with cast("PageServer", self.server).playing:
                answer = played(call) if self.path == "/play" else exported(call)
        except FencelockError as error:
            raise _Refused(422, str(error)) from None
        except RecursionError:
            raise _Refused(422, NESTED) from None
        if isinstance(answer, str):
            self._send(answer.encode(), 200, (("Content-Type", "text/html; charset=utf-8"),))
        else:
            self._json(answer)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _Refused(411, "say how long the document is")
        if int(length) > BODY_MAX:
            raise _Refused(413, f"a document has {BODY_MAX} bytes at the most")
        return self.rfile.read(int(length))

    def _json(self, answer: object, status: int = 200) -> None:
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        self._send(json.dumps(answer, ensure_ascii=False).encode(), status, headers)

    def _send(self, data: bytes, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


@cache
def _files() -> dict[str, File]:
    return of_page("lab")
