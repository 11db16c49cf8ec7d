"""A small service of counters, once for ASGI and once for WSGI, with the guard in front.

``/counters/NAME`` is guarded, ``/bare/NAME`` is the same number without the guard, and
``/marks/NAME`` tells the mark, ``/written/NAME`` that of the writers. GET reads, PUT writes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

from fencelock.guards.http import MemoryMarks, asgi, wsgi

GUARDED = "/counters/"
SLOW_S = 0.002


class Counters:
    """The numbers, by name."""

    def __init__(self) -> None:
        self.marks = MemoryMarks()
        self.numbers: dict[str, int] = {}

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        _, kind, name = path.split("/", 2)
        if kind == "marks":
            return str(self.marks.mark(GUARDED + name)).encode()
        if kind == "written":
            return str(self.marks.mark(GUARDED + name, reading=True)).encode()
        if method == "PUT":
            self.numbers[name] = int(body)
        return str(self.numbers.get(name, 0)).encode()


def slowness(path: str) -> float:
    """How long the handler dawdles, so that others overtake it, were they let in."""
    return random.random() * SLOW_S if guarded(path) else 0


def guarded(path: str) -> str | None:
    return path if path.startswith(GUARDED) else None


def asgi_app() -> asgi.FencingMiddleware:
    counters = Counters()

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await asyncio.sleep(slowness(scope["path"]))
        text = counters.answer(scope["method"], scope["path"], body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text})

    return asgi.FencingMiddleware(
        app, counters.marks, key=lambda scope: guarded(scope["path"]), reads=True
    )


def wsgi_app() -> wsgi.FencingMiddleware:
    counters = Counters()

    def app(environ: dict[str, Any], start_response: wsgi.Start) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        time.sleep(slowness(environ["PATH_INFO"]))
        text = counters.answer(environ["REQUEST_METHOD"], environ["PATH_INFO"], body)
        start_response("200 OK", [("Content-Length", str(len(text)))])
        return [text]

    return wsgi.FencingMiddleware(
        app, counters.marks, key=lambda environ: guarded(environ["PATH_INFO"]), reads=True
    )
