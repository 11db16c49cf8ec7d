"""mode=row: lock and data commit together, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock.engines.mysql.wire import transaction_pool
from tests.faults.flavors import Lab, make_due, run
from tests.servers.mariadb import SqlServer


@pytest.fixture
def data(server: SqlServer, table: str) -> str:
    """A table of the user's own, with one row."""
    name = f"{table}_data"
    server.ask(f"CREATE TABLE locks.{name} (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB")
    server.ask(f"INSERT INTO locks.{name} VALUES (1, 10)")
    return name


async def do(lease: Any, sql: str) -> None:
    """Run a statement over the connection of a lease, in whichever flavor it is."""
    connection = lease.connection
    cursor = connection.cursor()
    if hasattr(cursor, "__aenter__"):
        async with cursor as opened:
            await opened.execute(sql)
    else:
        with cursor as opened:
            opened.execute(sql)


def amount(server: SqlServer, data: str) -> int:
    return int(server.ask(f"SELECT amount FROM locks.{data}")[0][0])


def test_leaving_the_block_commits_the_data(
    flavor: str, server: SqlServer, table: str, data: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        async with client.lock("stock") as lease:
            await do(lease, f"UPDATE {data} SET amount = amount - 1")
            assert amount(server, data) == 10
        assert amount(server, data) == 9

    run(flavor, scenario)


def test_an_error_rolls_the_data_back(
    flavor: str, server: SqlServer, table: str, data: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        with pytest.raises(KeyError):
            async with client.lock("stock") as lease:
                await do(lease, f"UPDATE {data} SET amount = amount - 1")
                raise KeyError("of the body")
        assert amount(server, data) == 10
        async with client.lock("stock", timeout=5):
            pass

    run(flavor, scenario)


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_what_no_block_has_ended_well_is_rolled_back_when_the_client_closes(
    flavor: str, how: str, server: SqlServer, table: str, data: str
) -> None:
    """Whoever closes may do so because of an error: half of the work must not be kept."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        lease: Any = await client.lock("stock", ttl=60).acquire()
        await do(lease, f"UPDATE {data} SET amount = amount - 1")
        if how == "dropped":
            with pytest.warns(ResourceWarning):
                del lease
        await client.close()
        other = await lab.connect(server.url(), mode="row", table=table)
        async with other.lock("stock", timeout=10):
            assert amount(server, data) == 10

    run(flavor, scenario)


def test_a_block_that_ends_too_late_raises_and_commits_nothing(
    flavor: str, server: SqlServer, table: str, data: str
) -> None:
    """The holder's own end is earlier than the server's: in between nothing is kept either."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        with pytest.raises(fencelock.LeaseLost):
            async with client.lock("stock", ttl=60) as lease:
                await do(lease, f"UPDATE {data} SET amount = amount - 1")
                tenure = lease._hold
                tenure.grant = tenure.grant._replace(valid_until=client._core.world.now())
        assert amount(server, data) == 10
        async with client.lock("stock", timeout=10):
            pass

    run(flavor, scenario)


def test_a_renewal_that_meets_a_release_leaves_the_connection_to_one_lock(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Put by twice, it would be the connection of two holders at once."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        engine: Any = client._core.engine
        lease = await client.lock("stock", ttl=60).acquire()
        grant = lease._hold.grant
        hold = engine._holds[grant.owner]
        assert await lease.release() is True
        assert await engine._keep(hold, grant) is False  # it had begun before the release
        spare = [transaction for transaction, _ in engine._transactions._spare]
        assert len(spare) == len(set(spare)) == 1

    run(flavor, scenario)


def test_a_lost_lease_commits_nothing(
    flavor: str, server: SqlServer, table: str, data: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        lease = await client.lock("stock", ttl=0.3, renew=False).acquire()
        await do(lease, f"UPDATE {data} SET amount = amount - 1")
        assert await lease.lost.wait(10)
        rival = await client.lock("stock", timeout=10).acquire()
        assert await lease.release() is False
        await rival.release()
        assert amount(server, data) == 10

    run(flavor, scenario)


def test_the_transaction_is_not_ended_over_the_connection(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        async with client.lock("stock") as lease:
            for verb in ("commit", "rollback", "begin"):
                with pytest.raises(fencelock.UsageError, match="this transaction is the lock"):
                    ended = getattr(lease.connection, verb)()
                    if flavor == "asyncio":
                        await ended
            lease.check()

    run(flavor, scenario)


def test_a_transaction_that_was_ended_nevertheless_is_a_lost_lease(
    flavor: str, server: SqlServer, table: str, data: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        lease = await client.lock("stock", ttl=60).acquire()
        await do(lease, f"ALTER TABLE {data} COMMENT 'DDL commits'")
        make_due(lease)
        assert await lease.lost.wait(10)
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_holder_that_uses_its_connection_is_renewed_all_the_same(
    flavor: str, server: SqlServer, table: str
) -> None:
    """A statement that takes long does not keep renewals from the server."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        async with client.lock("stock", ttl=60) as lease:
            working = lab.start(do(lease, "SELECT SLEEP(1)"))
            for _ in range(3):
                await lab.until_renewed(lease)
            await working.result()
            lease.check()

    run(flavor, scenario)


def test_as_many_connections_are_kept_as_were_needed_at_once(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lock that is held has one; to connect anew for each lock would cost far more than it."""
    many, pool = 6, 2
    monkeypatch.setattr(transaction_pool, "SPARE_S", 600.0)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(f"{server.url()}?pool={pool}", mode="row", table=table)

        async def hold_many() -> None:
            leases = [await client.lock(f"seat:{number}").acquire() for number in range(many)]
            for lease in leases:
                assert await lease.release() is True

        await hold_many()
        before = connections(server)
        await hold_many()
        assert connections(server) == before + 1  # which is that of whoever counts
        monkeypatch.setattr(transaction_pool, "SPARE_S", 0.0)
        await (await client.lock("seat:0").acquire()).release()
        engine: Any = client._core.engine
        assert len(engine._transactions._spare) == pool

    run(flavor, scenario)


def connections(server: SqlServer) -> int:
    """How many there have ever been."""
    return int(server.ask("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])


def test_a_row_that_somebody_removes_is_made_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    """A client does not make a row that it knows of, and finds out when it is gone."""

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), mode="row", table=table) for _ in range(2)]
        before = await client.lock("stock").acquire()
        await before.release()
        server.ask(f"DELETE FROM locks.{table}_rows")
        lease = await client.lock("stock").acquire(timeout=0)
        assert lease.fence > before.fence
        assert await other.lock("stock").try_acquire() is None
        waiter = lab.start(client.lock("stock", timeout=30).acquire())
        await lease.release()
        await (await waiter.result()).release()

    run(flavor, scenario)


def test_other_modes_have_no_such_connection(server: SqlServer, table: str) -> None:
    with fencelock.connect(server.url(), table=table) as client, client.lock("stock") as lease:
        with pytest.raises(fencelock.Unsupported, match="mode=row"):
            _ = lease.connection
