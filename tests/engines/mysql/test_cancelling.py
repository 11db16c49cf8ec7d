"""A task that is cancelled while its client connects."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import aiomysql  # type: ignore[import-untyped]
import pytest

from fencelock import aio
from tests.servers.mariadb import SqlServer


def test_a_cancel_that_the_driver_swallows_is_not_lost(
    server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H09: before Python 3.12 the driver's time limit may end by forgetting that it was cancelled.

    The task would go on to wait for the lock, and whoever cancelled it for the task.
    """
    connect = aiomysql.Connection._connect

    async def deaf(self: Any) -> None:
        await connect(self)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            _ = await aio.connect(server.url())

    monkeypatch.setattr(aiomysql.Connection, "_connect", deaf)
    asyncio.run(main())
