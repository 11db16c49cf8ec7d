"""A lock that is a transaction: ``mode=row``, and advisory locks that end with one."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from fencelock.engines.postgresql.statements import Statements
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.postgresql import Postgresql
from tests.servers.server import until

Link = psycopg.Connection[Any]


def make_stock(link: Link, table: str) -> None:
    link.execute(
        f"CREATE TABLE stock_{table} (n int); INSERT INTO stock_{table} VALUES (7)".encode()
    )


def stock(link: Link, table: str) -> int:
    row = link.execute(f"SELECT n FROM stock_{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


BOUND = ["mode=row", "mode=advisory&bound=transaction"]


async def sell(lease: Any, table: str) -> None:
    done = lease.connection.execute(f"UPDATE stock_{table} SET n = n - 1".encode())
    if asyncio.iscoroutine(done):
        await done


@pytest.mark.parametrize("options", BOUND)
def test_lock_and_data_are_committed_together(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        async with client.lock("stock") as lease:
            await sell(lease, table)
            assert stock(link, table) == 7, "not committed while the lock is held"
        assert stock(link, table) == 6

    run(flavor, scenario)


@pytest.mark.parametrize("options", BOUND)
def test_a_body_that_raises_is_rolled_back(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        with pytest.raises(KeyError):
            async with client.lock("stock") as lease:
                await sell(lease, table)
                raise KeyError("of the body")
        assert stock(link, table) == 7
        async with client.lock("stock") as lease:
            await sell(lease, table)
        assert stock(link, table) == 6

    run(flavor, scenario)


@pytest.mark.parametrize("options", BOUND)
def test_a_holder_whose_session_was_ended_has_committed_nothing(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """H61: and it is told, at its next renewal."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        lease = await client.lock("stock", ttl=60).acquire()
        await sell(lease, table)
        pid = lease.connection.info.backend_pid
        link.execute("SELECT pg_terminate_backend(%s)", (pid,))
        make_due(lease)
        await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
        assert lease.reason is not None
        assert await lease.release() is False
        assert stock(link, table) == 7
        async with client.lock("stock") as after:
            assert after.fence > lease.fence

    run(flavor, scenario)


def test_a_holder_that_ends_its_own_transaction_is_told(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        lease = await client.lock("stock", ttl=60).acquire()
        ended = lease.connection.commit()
        if asyncio.iscoroutine(ended):
            await ended
        make_due(lease)
        await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
        assert "transaction" in (lease.reason or "")

    run(flavor, scenario)


def test_a_long_statement_of_the_holder_does_not_cost_it_the_lease(
    flavor: str, server: Postgresql, table: str
) -> None:
    """While its connection is busy, renewals only look from outside."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        lease = await client.lock("stock", ttl=60).acquire()

        async def work() -> None:
            slept = lease.connection.execute("SELECT pg_sleep(1)")
            if asyncio.iscoroutine(slept):
                await slept

        working = lab.start(work())
        for _ in range(3):
            await lab.until_renewed(lease)
        await working.result()
        lease.check()
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_row_that_is_being_tidied_away_is_free(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """A client that begins tidies; who comes then waits for that, and is not refused."""
    waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = %s"

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        async with client.lock("stock"):
            pass
        sql = Statements("row", table, "public")
        link.execute(f"DELETE FROM {table}_holders".encode())  # as if a minute had passed
        with link.transaction():
            link.execute(sql.tidy.sql.encode())
            taking = lab.start(client.lock("stock").try_acquire())
            tidied = f"""SELECT hashtext('"public".{table}_rows')::oid::int8"""
            number = link.execute(tidied.encode()).fetchone()
            await lab.until(lambda: taking.done() or link.execute(waits, number).fetchone())
        lease = await taking.result()
        assert lease is not None
        assert await lease.release() is True

    run(flavor, scenario)


def test_an_unanswered_commit_is_looked_up(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """H14: the answer to COMMIT is lost; the server knows what became of it."""
    from tests.servers.postgresql import USER
    from tests.servers.proxy import Proxy

    make_stock(link, table)
    with Proxy(server.port) as proxy:
        url = f"postgresql://{USER}@{proxy.address}/postgres?table={table}&mode=row"

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(url)
            lease = await client.lock("stock").acquire()
            await sell(lease, table)
            proxy.lose_next_reply(to=b"COMMIT")
            assert await lease.release() is True
            assert proxy.lost == 1
            assert stock(link, table) == 6
            await (await client.lock("stock").acquire()).release()

        run(flavor, scenario)
    until(lambda: stock(link, table) == 6, "what was committed to stay")


def rows(link: Link, table: str) -> tuple[int, int]:
    """How many names there are something of, in each of the two tables."""
    counted = f"SELECT (SELECT count(*) FROM {table}_rows), (SELECT count(*) FROM {table}_holders)"
    found = link.execute(counted.encode()).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("options", BOUND)
def test_names_that_were_used_once_leave_nothing_behind(
    options: str, flavor: str, server: Postgresql, table: str, link: Link, monkeypatch: Any
) -> None:
    """A client that goes on for years locks many names; the fences still grow."""
    monkeypatch.setattr("fencelock.engines.postgresql.row.TIDY_EVERY", 10)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        fences: list[int] = []
        for number in range(9):
            async with client.lock(f"name {number}") as lease:
                fences.append(lease.fence)
        long_ago = f"UPDATE {table}_holders SET expires_at = now() - interval '2 minutes'"
        link.execute(long_ago.encode())
        held = await client.lock("held").acquire()  # the tenth
        await lab.until(lambda: max(rows(link, table)) == 1, "the others to be removed")
        assert held.fence > max(fences)
        async with client.lock("name 1") as lease:
            assert lease.fence > held.fence
        assert await held.release() is True

    run(flavor, scenario)


def test_a_waiter_whose_row_is_tidied_away_goes_on_waiting(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        async with client.lock("stock"):
            pass
        queued = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        with link.transaction():
            link.execute(f"DELETE FROM {table}_rows".encode())
            waiting = lab.start(client.lock("stock", timeout=SOON).acquire())
            await lab.until(lambda: waiting.done() or link.execute(queued).fetchone(), "a waiter")
        lease = await waiting.result()
        assert await lease.release() is True

    run(flavor, scenario)
