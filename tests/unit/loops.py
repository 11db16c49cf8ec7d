"""An event loop for one test, and what is done in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from fencelock.errors import OutcomeUnknown
from fencelock.worlds.aio import AioWorld

NEVER = 60.0


def in_loop(test: Callable[[AioWorld], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop, with a world that was made in it."""

    async def main() -> None:
        async with asyncio.timeout(NEVER):
            await test(AioWorld())

    @wraps(test)
    def run() -> None:
        asyncio.run(main())

    del run.__wrapped__  # pytest would ask for a fixture "world"
    return run


async def resolved(gate: asyncio.Event) -> None:
    """Wait as a release does: what a cancellation makes unknown is asked for again."""
    try:
        await gate.wait()
    except OutcomeUnknown:
        await gate.wait()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
