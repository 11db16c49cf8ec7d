"""The same with asyncio, where an ``enter`` can also be cancelled."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from fencelock import StaleFence
from fencelock.guards.sql import SqlGuard
from tests.guards.sql.psycopg.entering import ASCII, NAME
from tests.servers.postgresql import Postgresql
from tests.servers.server import until
from tests.servers.shared import shared

WAITS_FOR = "SELECT wait_event_type FROM pg_stat_activity"


def test_asyncio_does_the_same(url: str, guard: SqlGuard) -> None:
    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(url) as db:
            for fence in (5, 6, 7):
                await guard.enter(db, fence, NAME)
                await db.commit()
                with pytest.raises(StaleFence):
                    await guard.enter(db, fence - 1, NAME)
                await db.rollback()
                await db.set_autocommit(True)
                await db.execute("DEALLOCATE ALL")
                await db.set_autocommit(False)
            for name in (ASCII, NAME):
                for fence in (7, 7, 7, 2**31, 2**31):
                    async with db.transaction():
                        await guard.enter(db, fence, name)
                with pytest.raises(StaleFence):
                    async with db.transaction():
                        await guard.enter(db, 8, name)
                await guard.reset(db, name, 7)
                await db.commit()
            async with db.transaction():
                await db.execute("DEALLOCATE ALL")
                await guard.enter(db, 8, NAME)
                await guard.enter(db, 9, NAME)
                with pytest.raises(StaleFence):
                    await guard.enter(db, 8, NAME)
            assert await guard.mark(db, NAME) == 9

    asyncio.run(play())


@pytest.mark.parametrize("before", [0, 7], ids=["new", "prepared"])
def test_a_cancelled_enter_leaves_nothing_behind(url: str, guard: SqlGuard, before: int) -> None:
    server = shared(Postgresql)

    async def play() -> None:
        async with (
            await psycopg.AsyncConnection.connect(url) as first,
            await psycopg.AsyncConnection.connect(url) as second,
        ):
            for _ in range(before):
                await guard.enter(second, 1, NAME)
                await second.commit()
            await guard.enter(first, 5, NAME)
            task = asyncio.ensure_future(guard.enter(second, 6, NAME))
            # Not before the server waits: it ignores a wish to cancel what it does not do yet.
            waits = f"{WAITS_FOR} WHERE pid = {second.info.backend_pid}"
            await asyncio.to_thread(until, lambda: server.psql(waits) == "Lock", "it to wait")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await second.rollback()
            await first.commit()
            assert await guard.mark(second, NAME) == 5
            await second.rollback()
            await guard.enter(second, 6, NAME)  # it is a connection like any other
            await second.commit()
            assert await guard.mark(first, NAME) == 6

    asyncio.run(play())
