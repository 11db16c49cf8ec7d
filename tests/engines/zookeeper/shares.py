"""Owners that take shares of a name through the engine, one step at a time."""

from __future__ import annotations

from secrets import token_hex
from typing import Any

from fencelock import aio
from fencelock._client.lock_options import READ, WRITE
from fencelock.model import Busy, Grant, Request, Share
from fencelock.worlds import clock
from tests.faults.flavors import SOON

TWO = Share("semaphore", 1, 2)

__all__ = ["READ", "TWO", "WRITE", "engine_of", "hold", "is_busy", "take", "wish"]


def engine_of(client: aio.Client) -> Any:
    return client._core.engine


def wish(share: Share | None, name: str = "seat", ttl: float = 30.0) -> Request:
    """A new owner's request."""
    return Request(name, token_hex(16), ttl, share=share)


async def take(
    client: aio.Client, share: Share | None, name: str = "seat", ttl: float = 30.0
) -> Grant:
    answer = await engine_of(client).acquire(wish(share, name, ttl))
    assert isinstance(answer, Grant), answer
    return answer


async def is_busy(client: aio.Client, share: Share, name: str = "seat") -> bool:
    return isinstance(await engine_of(client).acquire(wish(share, name)), Busy)


async def hold(client: aio.Client, request: Request) -> Grant:
    """Wait in the queue until the share is granted."""
    engine, request = engine_of(client), request._replace(queue=True)
    signal, deadline = engine.world.signal(), clock.now() + 3 * SOON
    await engine.watch(request, signal)
    while clock.now() < deadline:
        answer = await engine.acquire(request)
        if isinstance(answer, Grant):
            await engine.unwatch(request)
            return answer
        await engine.wait(signal, deadline)
        signal.clear()
    raise AssertionError("nobody gave it up")
