"""Requests to a middleware without a server: both flavors behind one face."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fencelock.guards.http import asgi, wsgi


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = json.loads(self.body)
        assert found["status"] == self.status
        return found


async def call(
    app: asgi.App, method: str, path: str, headers: Iterable[tuple[str, str]] = ()
) -> Reply:
    """Send one request to an ASGI application."""
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    await app(scope, receive, send)
    start, body = said
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], names, body["body"])


def call_wsgi(
    app: wsgi.App, method: str, path: str, headers: Iterable[tuple[str, str]] = ()
) -> Reply:
    """Send one request to a WSGI application."""
    started: list[Any] = []
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path.encode().decode("latin-1"),
        "wsgi.input": io.BytesIO(),
    }
    for name, value in headers:
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    body = app(environ, lambda status, fields: started.append((status, fields)))
    content = b"".join(body)
    if close := getattr(body, "close", None):
        close()
    status, fields = started[0]
    return Reply(int(status.split()[0]), {k.lower(): v for k, v in fields}, content)


class Flavor:
    """One middleware around an application that notes what reaches it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = 200
        """What the application answers with."""
        self.reached: list[tuple[int | None, str | None]] = []

    def make(
        self, marks: Any = None, key: Callable[[str], str | None] | None = None, **how: Any
    ) -> Flavor:
        """Put the middleware around it; ``key`` is told the path."""
        if self.name == "asgi":
            by = None if key is None else lambda scope: key(scope["path"])
            self.asgi = asgi.FencingMiddleware(self._asgi, marks, key=by, **how)
        else:
            by = None if key is None else lambda environ: key(environ["PATH_INFO"])
            self.wsgi = wsgi.FencingMiddleware(self._wsgi, marks, key=by, **how)
        return self

    async def _asgi(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        self.reached.append((scope.get("fencelock.fence"), scope.get("fencelock.name")))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    def _wsgi(self, environ: dict[str, Any], start_response: wsgi.Start) -> Iterable[bytes]:
        self.reached.append((environ.get("fencelock.fence"), environ.get("fencelock.name")))
        start_response(f"{self.status} Whatever", [])
        return [b"done"]

    def send(self, method: str, path: str, *headers: tuple[str, str]) -> Reply:
        if self.name == "wsgi":
            return call_wsgi(self.wsgi, method, path, headers)
        return asyncio.run(call(self.asgi, method, path, headers))

    def put(self, fence: object, path: str = "/seat") -> Reply:
        return self.send("PUT", path, ("Fencing-Token", str(fence)))
