"""``mode=row``: only a body that ended well is committed, and whoever is told of a loss has kept
nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from fencelock import EngineError, Expired, LeaseLost, SessionEnded, UsageError
from tests.engines.postgresql.gate import engine_of
from tests.engines.postgresql.test_bound import BOUND, make_stock, sell, stock
from tests.faults.flavors import Lab, make_due, run
from tests.servers.postgresql import Postgresql
from tests.servers.server import until

Link = psycopg.Connection[Any]


async def awaited(answer: Any) -> None:
    if asyncio.iscoroutine(answer):
        await answer


@pytest.mark.parametrize("options", BOUND)
@pytest.mark.parametrize("dropped", [False, True])
def test_what_a_client_that_is_closed_still_held_is_rolled_back(
    options: str, dropped: bool, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """An error has cut the work short, or its lease was dropped: nobody said that it is done."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        lease: Any = await client.lock("stock").acquire()
        await sell(lease, table)
        if dropped:
            with pytest.warns(ResourceWarning):
                del lease
        await client.close()
        assert stock(link, table) == 7

    run(flavor, scenario)


@pytest.mark.parametrize("options", BOUND)
def test_a_block_within_that_raised_is_not_committed_in_silence(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Somebody has caught its error and the outer block ends well: nothing is kept, and said so."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        lock = client.lock("stock", reentrant=True)
        with pytest.raises(UsageError, match="nothing is committed"):
            async with lock as lease:
                await sell(lease, table)
                with pytest.raises(KeyError):
                    async with lock:
                        raise KeyError("within")
        assert stock(link, table) == 7

    run(flavor, scenario)


PROGRAM = """
import sys
import fencelock
client = fencelock.connect(sys.argv[1])
lease = client.lock("stock").acquire()
lease.connection.execute(sys.argv[2])
raise RuntimeError("half done")
"""


def test_what_a_program_that_fails_still_held_is_rolled_back(
    server: Postgresql, table: str, link: Link
) -> None:
    make_stock(link, table)
    url, half = server.url(f"table={table}&mode=row"), f"UPDATE stock_{table} SET n = n - 1"
    command = [sys.executable, "-c", PROGRAM, url, half]
    ran = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert "half done" in ran.stderr
    ended = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND pid <> pg_backend_pid()"
    until(lambda: link.execute(ended, (f"%stock_{table}%",)).fetchone() == (0,), "its end")
    assert stock(link, table) == 7


@pytest.mark.parametrize("options", BOUND)
def test_who_is_told_of_a_loss_has_committed_nothing(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Between the holder's own end and the server's; else somebody would do it all again."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        with pytest.raises(Expired):
            async with client.lock("stock", ttl=30, renew=False) as lease:
                await sell(lease, table)
                grant = lease._hold.grant  # the holder's clock says so, nobody else's does
                lease._hold.grant = grant._replace(valid_until=grant.asked_at)
        assert stock(link, table) == 7
        async with client.lock("stock", timeout=0) as lease:
            await sell(lease, table)
        assert stock(link, table) == 6

    run(flavor, scenario)


def test_a_commit_that_was_sent_in_time_is_no_loss(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """However long its answer takes: its outcome decides."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        async with client.lock("stock", ttl=30) as lease:
            await sell(lease, table)
            (hold,) = engine_of(client)._holds.values()
            end = hold.session.execute_last

            async def slowly(statement: Any) -> Any:
                answer = await end(statement)
                hold.until = 0.0
                return answer

            hold.session.execute_last = slowly
        assert stock(link, table) == 6

    run(flavor, scenario)


@pytest.mark.parametrize("then", ["nothing", "begin"])
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_holder_that_ends_its_transaction_is_told_that_it_did(
    ending: str, then: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Not that somebody revoked it; and what it did after that, without the lock, is not kept."""
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        with pytest.raises(SessionEnded, match="inside the block, by a commit"):
            async with client.lock("stock", ttl=30) as lease:
                await sell(lease, table)
                await awaited(getattr(lease.connection, ending)())
                if then == "begin":
                    await awaited(lease.connection.execute("BEGIN"))
                    await sell(lease, table)
        assert stock(link, table) == (6 if ending == "commit" else 7)

    run(flavor, scenario)


def test_a_second_transaction_of_the_holder_is_no_renewal(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        lease = await client.lock("stock", ttl=60).acquire()
        await awaited(lease.connection.commit())
        await awaited(lease.connection.execute("BEGIN"))
        make_due(lease)
        await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
        assert "inside the block" in (lease.reason or "")

    run(flavor, scenario)


def test_a_failed_statement_that_nobody_heeded_is_told(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    make_stock(link, table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        with pytest.raises(LeaseLost, match=r"over lease\.connection has failed"):
            async with client.lock("stock", ttl=30) as lease:
                await sell(lease, table)
                with pytest.raises(psycopg.Error):
                    await awaited(lease.connection.execute("SELECT 1 / 0"))
        assert stock(link, table) == 7

    run(flavor, scenario)


def test_a_commit_that_the_server_refuses_is_told_and_not_tried_again(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """A deferred check fails, as if by a deadlock: a second COMMIT would find nothing to commit
    and succeed."""
    make_stock(link, table)
    link.execute(
        f"""CREATE FUNCTION refuse_{table}() RETURNS trigger AS $$ BEGIN
        RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$ LANGUAGE plpgsql;
        CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON stock_{table} DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse_{table}()""".encode()
    )

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=row"))
        with pytest.raises(EngineError, match="not committed"):
            async with client.lock("stock", ttl=30) as lease:
                await sell(lease, table)
        assert stock(link, table) == 7
        async with client.lock("stock", timeout=0):
            pass

    run(flavor, scenario)


def test_two_modes_with_one_table_do_not_end_each_others_leases(
    flavor: str, server: Postgresql, table: str
) -> None:
    """They note who holds in the same place, and nothing is decided by that."""

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(server.url(f"table={table}&{o}")) for o in BOUND]
        leases = [await client.lock("seat", ttl=60).acquire() for client in clients]
        for lease in leases:
            await lab.until_renewed(lease)
        for lease in leases:
            assert await lease.release() is True

    run(flavor, scenario)
