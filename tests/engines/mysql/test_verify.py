"""A transaction of the caller's own makes sure of a lease, in mode=lease."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fencelock
import fencelock.sql
from fencelock.engines.mysql import cleanup, lease_sql
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer


def begin(server: SqlServer) -> Any:
    connection = server.connect()
    connection.begin()
    return connection


def test_nobody_gets_the_lock_before_the_transaction_has_ended(
    server: SqlServer, table: str
) -> None:
    with (
        fencelock.connect(server.url(), table=table) as client,
        fencelock.connect(server.url(), table=table, request_timeout=20) as other,
    ):
        lease = client.lock("seat", ttl=2, renew=False).acquire()
        connection = begin(server)
        fencelock.sql.verify(connection, lease)
        assert lease.lost.wait(10)
        refusals = (fencelock.Unavailable, fencelock.AcquireTimeout, fencelock.OutcomeUnknown)
        with fencelock.connect(server.url(), table=table) as hasty:
            with pytest.raises(refusals):
                hasty.lock("seat", ttl=2).acquire(timeout=1)
        connection.commit()
        connection.close()
        with other.lock("seat", timeout=20) as rival:
            assert rival.fence > lease.fence
        assert lease.release() is False


def test_renewal_goes_on_while_the_transaction_is_open(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        lease = await client.lock("seat", ttl=60).acquire()
        connection = begin(server)
        fencelock.sql.verify(connection, _face(lease))
        for _ in range(3):
            await lab.until_renewed(lease)
        connection.commit()
        connection.close()
        assert await lease.release() is True

    run(flavor, scenario)


def _face(lease: Any) -> Any:
    return getattr(lease, "_inner", lease)


def test_a_lease_that_is_over_is_refused(server: SqlServer, table: str) -> None:
    with fencelock.connect(server.url(), table=table) as client:
        lease = client.lock("seat", ttl=30).acquire()
        server.ask(f"UPDATE locks.{table}_locks SET expires_at = 0")  # as if its time were over
        connection = begin(server)
        with pytest.raises(fencelock.LeaseLost):
            fencelock.sql.verify(connection, lease)
        connection.close()
        client.lock("seat", timeout=5).acquire().release()
        lease.release()


def test_releasing_before_the_commit_is_warned_about(server: SqlServer, table: str) -> None:
    with fencelock.connect(server.url(), table=table, request_timeout=5) as client:
        lease = client.lock("seat").acquire()
        connection = begin(server)
        fencelock.sql.verify(connection, lease)
        with pytest.warns(RuntimeWarning, match="released before the transaction"):
            with pytest.raises(fencelock.OutcomeUnknown, match="kept the row locked"):
                lease.release()
        connection.commit()
        connection.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lease.release()  # unless that was done in the background meanwhile
            client.lock("seat", timeout=10).acquire().release()


def test_a_lease_has_no_connection_of_its_own(server: SqlServer, table: str) -> None:
    with fencelock.connect(server.url(), table=table) as client, client.lock("seat") as lease:
        with pytest.raises(fencelock.Unsupported, match=r"fencelock\.sql\.verify\(\)"):
            _ = lease.connection


def test_other_modes_cannot_be_asked(server: SqlServer, table: str) -> None:
    with fencelock.connect(server.url(), mode="advisory", table=table) as client:
        with client.lock("seat") as lease:
            with pytest.raises(fencelock.Unsupported, match="mode=lease"):
                fencelock.sql.verify(begin(server), lease)


def test_a_clean_up_keeps_nobody_waiting_for_a_row_that_is_locked(
    flavor: str, server: SqlServer, table: str
) -> None:
    """A request would wait for a row for 58 s here, which is longer than the test waits."""

    async def scenario(lab: Lab) -> None:
        client, other = [
            await lab.connect(server.url(), table=table, request_timeout=60) for _ in range(2)
        ]
        report = await client.lock("report", ttl=600).acquire()
        connection = begin(server)
        fencelock.sql.verify(connection, _face(report))
        lease = await other.lock("other", ttl=600).acquire()
        for work in (lease.renew, lease.release):
            _make_due(other)
            await lab.start(work()).result()
        connection.commit()
        connection.close()
        assert await report.release() is True

    run(flavor, scenario)


def test_a_clean_up_of_shares_keeps_nobody_waiting_for_a_row_that_is_locked(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table, request_timeout=60)
        await (await client.semaphore("seats", limit=2).acquire()).release()
        lease = await client.semaphore("desks", limit=2, ttl=600).acquire()
        connection = begin(server)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}_share_names WHERE name='sseats' FOR UPDATE")
        for work in (lease.renew, lease.release):
            _make_due(client)
            await lab.start(work()).result()
        connection.rollback()
        connection.close()

    run(flavor, scenario)


def _make_due(client: Any) -> None:
    engine = client._core.engine
    for one in (engine._cleanup, engine._shares.cleanup):
        one.due_at = 0.0


def test_a_clean_up_leaves_rows_that_are_locked_and_removes_the_others(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_sql, "UNUSED_US", -1_000_000)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table, request_timeout=60)
        for name in ("a", "b", "c"):
            await (await client.lock(name).acquire()).release()
        connection = begin(server)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}_locks WHERE name='a' LOCK IN SHARE MODE")
        engine: Any = client._core.engine
        for _ in range(2):  # the fence, the rows
            await lab.start(engine._cleanup._run()).result()
        assert server.ask(f"SELECT name FROM locks.{table}_locks") == [(b"a",)]
        connection.rollback()
        connection.close()
        await lab.start(engine._cleanup._run()).result()
        assert server.ask(f"SELECT name FROM locks.{table}_locks") == []

    run(flavor, scenario)


def test_a_clean_up_stops_nobody_while_another_waits_for_a_row_that_is_locked(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the row of a lock has locked that of the highest fence for reading."""
    monkeypatch.setattr(lease_sql, "UNUSED_US", -1_000_000)
    monkeypatch.setattr(cleanup, "FENCE_PAUSE_S", 0.02)

    async def scenario(lab: Lab) -> None:
        client, other, third = [
            await lab.connect(server.url(), table=table, request_timeout=60) for _ in range(3)
        ]
        await (await client.lock("unused").acquire()).release()
        report = await client.lock("report", ttl=600).acquire()
        connection = begin(server)
        fencelock.sql.verify(connection, _face(report))
        waiter = lab.start(other.lock("report", timeout=60).acquire())
        waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state='LOCK WAIT'"
        for _ in range(150):
            await lab.let_pass(0.2)  # the table is made anew if nobody has read it for 0.1 s
            if server.ask(waits)[0][0]:
                break
        else:
            raise AssertionError("no request waits for the row")
        engine: Any = client._core.engine
        cleaning = lab.start(engine._cleanup._run())
        await (await lab.start(third.lock("new").acquire()).result()).release()
        await cleaning.result()
        connection.commit()
        connection.close()
        assert await report.release() is True
        await (await waiter.result()).release()

    run(flavor, scenario)
