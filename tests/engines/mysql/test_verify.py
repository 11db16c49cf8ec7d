"""A transaction of the caller's own makes sure of a lease, in mode=lease."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fencelock
import fencelock.sql
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
        with fencelock.connect(server.url(), table=table, request_timeout=1) as hasty:
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
    with fencelock.connect(server.url(), table=table) as client:
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
