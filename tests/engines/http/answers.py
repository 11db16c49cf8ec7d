"""A server that answers what a test tells it to: another program, a proxy, or a broken service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

ABOUT = {
    "schema": 1,
    "version": "0",
    "engine": "sqlite",
    "traits": {"safety": "correctness", "scope": "machine", "fence": True, "portable": True},
    "limits": {},
    "identity": "anonymous",
    "rights": [{"prefix": "", "verbs": ["acquire", "observe", "revoke"]}],
}


class Said(NamedTuple):
    """An answer; None for the status hangs up without one."""

    status: int | None
    body: object = None
    media: str = "application/json"


def problem(status: int, kind: str, **members: object) -> Said:
    body = {
        "schema": 1,
        "type": f"urn:fencelock:problem:{kind}",
        "status": status,
        "detail": f"the detail of {kind}",
        "may_have_happened": kind in ("outcome-unknown", "internal"),
        **members,
    }
    return Said(status, body, "application/problem+json")


class Stub:
    """What the server does, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[dict[str, Any]], Said]] = {}
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.url = ""

    def say(self, path: str, said: Said) -> None:
        self.answers[path] = lambda body: said


@contextmanager
def stub() -> Iterator[Stub]:
    found = Stub()
    found.say("/v1/about", Said(200, ABOUT))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", "0")))
            path = self.path.partition("?")[0]
            body = json.loads(data or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append((path, body, headers))
            status, answer, media = found.answers[path](body)
            if status is None:
                self.close_connection = True
                return
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
