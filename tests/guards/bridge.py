"""One event loop with one client in it, which a blocking test can use again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any


class Bridge:
    """Runs what is awaited; a client of aiobotocore takes too long to be made for each call."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._client: Any = None

    def run(self, use: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call with the client and wait for what that returns."""

        async def main() -> Any:
            if self._client is None:
                self._client = await self._stack.enter_async_context(self._make())
            return await use(self._client)

        return self._runner.run(main())

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()
