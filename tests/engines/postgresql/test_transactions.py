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
        client = await lab.connect(server.url(f"table={table}&request_timeout=3"))
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
        client = await lab.connect(server.url(f"table={table}&request_timeout=20"))
        rival = await lab.connect(server.url(f"table={table}&request_timeout=20"))
        lease = await client.lock("seat", ttl=60).acquire()
        fencelock.sql.verify(mine, lease)
        waiter = lab.start(rival.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        for _ in range(3):
            await lab.until_renewed(lease)
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
