"""A request to an ASGI application that does nothing, with the middleware and without.

No server and no network: what the middleware itself adds. Its marks are in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

from bench.contestant import Target
from bench.writing_aio import AioWriting

LIMIT_US = 60.0
SCOPE = {
    "type": "http",
    "method": "PUT",
    "path": "/stock/42",
    "headers": [
        (b"host", b"localhost"),
        (b"user-agent", b"bench"),
        (b"accept", b"*/*"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
        (b"fencing-token", b"1790000000000000"),
        (b"fencing-name", b"stock%3A42"),
    ],
}


class AsgiBare(AioWriting):
    """The application alone."""

    name = "asgi bare request"
    field = "guarded request to asgi"
    works = frozenset({"guards"})
    yardstick = works

    def aio_writer(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        return _requests(guarded=False)


class AsgiGuarded(AioWriting):
    """The same behind FencingMiddleware; all of it within the limit of what it may add."""

    name = "asgi guarded request"
    field = AsgiBare.field
    works = frozenset({"guards"})
    targets: ClassVar = {"guards": (Target("wall_us", "at most", LIMIT_US),)}

    def aio_writer(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        return _requests(guarded=True)


@asynccontextmanager
async def _requests(guarded: bool) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    from fencelock.guards.http.asgi import App, FencingMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        pass

    asked: App = FencingMiddleware(app) if guarded else app

    async def request() -> None:
        await asked(SCOPE, receive, send)

    yield request
