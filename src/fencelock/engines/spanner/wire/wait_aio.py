"""Wait in asyncio for what another thread completes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def wait(begin: Callable[[Callable[[Any], None]], object], seconds: float) -> bool:
    """Hand out a function that ends this wait, and say whether it was called in time."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[bool] = loop.create_future()

    def wake(_: Any) -> None:
        try:
            loop.call_soon_threadsafe(_end, ended, True)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    begin(wake)
    timer = loop.call_later(seconds, _end, ended, False)
    try:
        return await ended
    finally:
        timer.cancel()


def _end(ended: asyncio.Future[bool], value: bool) -> None:
    if not ended.done():
        ended.set_result(value)
