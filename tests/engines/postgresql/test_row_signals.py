"""Whom a lock that is a transaction has the server interrupt, if a pooler shares its backends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.engines.postgresql.gate import engine_of
from tests.faults.flavors import SOON, Job, Lab, run
from tests.servers.pgbouncer import Pgbouncer

Link = psycopg.Connection[Any]
OPTIONS = ["mode=row", "mode=advisory&bound=transaction"]
KEY = 4711
WAITING = (
    f"SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid = {KEY}"
)
BACKENDS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@pytest.fixture
def pooler() -> Iterator[Pgbouncer]:
    """A pooler that gives each transaction one of its few backends, and a server of its own."""
    with Pgbouncer() as running:
        yield running


class Others:
    """Other programs at the pooler: each has a backend, and waits there in a statement."""

    def __init__(self, lab: Lab, pooler: Pgbouncer) -> None:
        self._lab = lab
        self._pooler = pooler
        self._link = psycopg.connect(pooler.server.conninfo, autocommit=True)
        self._link.execute(f"SELECT pg_advisory_lock({KEY})".encode())
        self._waits: list[Job[None]] = []

    async def come(self) -> None:
        """Take all the backends that the pooler has now, and wait there."""
        pids = {pid for (pid,) in self._link.execute(BACKENDS).fetchall()}
        while pids:
            link = psycopg.connect(self._pooler.url(), prepare_threshold=None)
            pids -= set(link.execute("SELECT pg_backend_pid()").fetchall()[0])
            self._waits.append(self._lab.start(self._wait(link)))
        await self.until_waiting(len(self._waits))

    async def until_waiting(self, count: int) -> None:
        await self._lab.until(
            lambda: self._link.execute(WAITING.encode()).fetchone() == (count,), "others to wait"
        )

    @property
    def count(self) -> int:
        return len(self._waits)

    async def _wait(self, link: Link) -> None:
        statement = f"SELECT pg_advisory_xact_lock({KEY})".encode()
        if self._lab.flavor == "asyncio":
            await asyncio.to_thread(link.execute, statement)
        else:
            link.execute(statement)
        link.close()

    async def finish(self) -> None:
        """Let them go on; whoever was interrupted raises here."""
        self._link.close()
        for wait in self._waits:
            await wait.result()


@pytest.mark.parametrize("options", OPTIONS)
def test_a_waiter_that_gives_up_cancels_no_statement_of_others(
    options: str, flavor: str, pooler: Pgbouncer
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(pooler.url(f"{options}&request_timeout=20"))
        async with client.lock("free"):
            pass
        others = Others(lab, pooler)
        await others.come()
        holder = await lab.connect(pooler.server.url(options))
        lease = await holder.lock("seat", ttl=60).acquire()
        assert await client.lock("seat").try_acquire(timeout=0.2) is None
        await others.finish()
        assert await lease.release() is True
        async with client.lock("seat", timeout=SOON):  # it has left the server's queue
            pass

    run(flavor, scenario)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_end_of_a_lease_whose_holder_is_busy_ends_nobody_else(
    options: str, flavor: str, pooler: Pgbouncer
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(pooler.url(f"{options}&request_timeout=20"))
        async with client.lock("free"):
            pass
        others = Others(lab, pooler)
        await others.come()
        lease = await client.lock("seat", ttl=60).acquire()
        connection, engine = lease.connection, engine_of(client)

        async def work() -> None:
            done = connection.execute(f"SELECT pg_advisory_xact_lock({KEY})".encode())
            if asyncio.iscoroutine(done):
                await done

        working = lab.start(work())
        await others.until_waiting(others.count + 1)
        ((owner, hold),) = engine._holds.items()
        await engine._give_up(owner, hold)  # as if it had not been renewed
        with pytest.raises(psycopg.Error):
            await working.result()
        await others.until_waiting(others.count)  # its backend waits no more
        await others.finish()
        async with client.lock("seat", timeout=SOON):
            pass
        assert await lease.release() is False

    run(flavor, scenario)
