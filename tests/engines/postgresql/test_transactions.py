"""A lease and the caller's own transaction: ``fencelock.sql.verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fencelock
import fencelock.sql
from fencelock import LeaseLost, Unsupported, UsageError
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import Postgresql
from tests.servers.server import until

Link = psycopg.Connection[Any]


@pytest.fixture
def mine(server: Postgresql) -> Iterator[Link]:
    """The caller's connection, with transactions."""
    with psycopg.connect(server.conninfo) as connection:
        yield connection
        connection.rollback()


def expire(link: Link, table: str) -> None:
    """End all leases on the server's clock, as if their holders had been frozen for long."""
    link.execute(f"UPDATE {table}_locks SET expires_at = now() - interval '1 second'".encode())


def test_nobody_is_granted_the_lock_before_a_verified_transaction_ends(
    flavor: str, server: Postgresql, table: str, link: Link, mine: Link
) -> None:
    """Even when the lease has ended meanwhile, and a waiter stands there."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        rival = await lab.connect(server.url(f"table={table}"))
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        fencelock.sql.verify(mine, lease)
        expire(link, table)
        waiter = lab.start(rival.lock("seat", timeout=SOON).acquire())
        assert await rival.lock("seat").try_acquire() is None
        assert not waiter.done()
        mine.commit()
        other = await waiter.result()
        assert other.fence > lease.fence
        await other.release()
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_transaction_after_the_loss_is_refused(
    flavor: str, server: Postgresql, table: str, link: Link, mine: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        expire(link, table)
        assert lease, "the holder does not know yet"
        with pytest.raises(LeaseLost, match="seat"):
            fencelock.sql.verify(mine, lease)
        mine.rollback()
        async with client.lock("seat", ttl=30):
            with pytest.raises(LeaseLost):
                fencelock.sql.verify(mine, lease)
        await lease.release()

    run(flavor, scenario)


def test_a_revocation_waits_for_a_verified_transaction(
    flavor: str, server: Postgresql, table: str, mine: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&patience=0.3"))
        lease = await client.lock("seat", ttl=30).acquire()
        fencelock.sql.verify(mine, lease)
        with pytest.raises(fencelock.Unavailable, match="not revoked"):
            await client.revoke("seat", "now")
        lease.check()
        mine.commit()
        assert await client.revoke("seat", "now") is True
        await lease.release()

    run(flavor, scenario)


def test_renewal_and_queueing_go_on_while_a_transaction_is_verified(
    flavor: str, server: Postgresql, table: str, mine: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&patience=1"))
        rival = await lab.connect(server.url(f"table={table}&patience=1"))
        lease = await client.lock("seat", ttl=0.9).acquire()
        fencelock.sql.verify(mine, lease)
        waiter = lab.start(rival.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        await lab.until(lambda: lease.renewals >= 3, "three renewals")
        lease.check()
        mine.commit()
        assert await lease.release() is True
        await (await waiter.result()).release()

    run(flavor, scenario)


def test_a_lock_released_before_the_commit_is_warned_about(
    flavor: str, server: Postgresql, table: str, mine: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        lease = await client.lock("seat").acquire()
        fencelock.sql.verify(mine, lease)
        with pytest.warns(RuntimeWarning, match="'seat' is released before the transaction"):
            await lease.release()
        async with client.lock("seat") as again:  # and in the right order nothing is said
            fencelock.sql.verify(mine, again)
            mine.commit()

    run(flavor, scenario)


def test_verify_needs_a_transaction(server: Postgresql, table: str, link: Link) -> None:
    with fencelock.connect(server.url(f"table={table}")) as client, client.lock("seat") as lease:
        with pytest.raises(UsageError, match="outside of a transaction"):
            fencelock.sql.verify(link, lease)


def test_verify_is_awaited_with_an_asyncio_driver(server: Postgresql, table: str) -> None:
    async def main() -> None:
        async with fencelock.aio.connect(server.url(f"table={table}")) as client:
            link = await psycopg.AsyncConnection.connect(server.conninfo)
            async with link, client.lock("seat") as lease:
                await fencelock.sql.verify(link, lease)
                assert (await (await link.execute("SELECT 1")).fetchone()) == (1,)
                await link.commit()
            lost = await client.lock("seat").acquire()
            await lost.release()
            with pytest.raises(LeaseLost):
                fencelock.sql.verify(link, lost)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["advisory", "row"])
def test_modes_without_a_row_to_hold_on_to_say_so(
    mode: str, server: Postgresql, mine: Link
) -> None:
    with fencelock.connect(server.url(f"mode={mode}")) as client, client.lock("seat") as lease:
        with pytest.raises(Unsupported, match="mode=lease"):
            fencelock.sql.verify(mine, lease)


def test_engines_without_a_database_say_so(mine: Link) -> None:
    with fencelock.connect("memory://verify") as client, client.lock("seat") as lease:
        with pytest.raises(Unsupported, match="guard"):
            fencelock.sql.verify(mine, lease)
        with pytest.raises(Unsupported, match="without a transaction"):
            lease.connection  # noqa: B018


# mode=row


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
        lease = await client.lock("stock", ttl=1.2).acquire()
        await sell(lease, table)
        pid = lease.connection.info.backend_pid
        link.execute("SELECT pg_terminate_backend(%s)", (pid,))
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
        lease = await client.lock("stock", ttl=0.9).acquire()
        ended = lease.connection.commit()
        if asyncio.iscoroutine(ended):
            await ended
        await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
        assert "transaction" in (lease.reason or "")

    run(flavor, scenario)


def test_a_long_statement_of_the_holder_does_not_cost_it_the_lease(
    flavor: str, server: Postgresql, table: str
) -> None:
    """While its connection is busy, renewals only look from outside."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        lease = await client.lock("stock", ttl=0.6).acquire()
        slept = lease.connection.execute("SELECT pg_sleep(2)")
        if asyncio.iscoroutine(slept):
            await slept
        lease.check()
        assert lease.renewals >= 3
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
