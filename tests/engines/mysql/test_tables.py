"""The tables: made on first use or by a migration, and emptied of what nobody uses."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock.engines.mysql import lease_sql
from fencelock.engines.mysql.tables import schema
from tests.servers.mariadb import PASSWORD, SqlServer


def test_an_account_that_may_not_create_uses_tables_of_a_migration(
    server: SqlServer, table: str
) -> None:
    server.ask(f"CREATE USER IF NOT EXISTS 'poor'@'%' IDENTIFIED BY '{PASSWORD}'")
    server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO 'poor'@'%'")
    url = server.url().replace("tester:", "poor:")
    with pytest.raises(fencelock.Denied, match="fencelock schema mysql"):
        fencelock.connect(url, table=table).open()
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in schema(table).split(";\n"):
            if statement.strip():
                cursor.execute(statement)
    with pytest.raises(fencelock.Denied, match=r"GRANT SELECT, INSERT, UPDATE, DELETE ON fencel"):
        fencelock.connect(url, mode="advisory").open()
    server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON fencelock.* TO 'poor'@'%'")
    for mode in ("lease", "advisory"):
        with fencelock.connect(url, table=table, mode=mode) as client:
            with client.lock("seat") as lease:
                assert lease.fence > 0


def test_a_schema_can_be_run_again(server: SqlServer, table: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in 2 * schema(table).split(";\n"):
            if statement.strip():
                cursor.execute(statement)


@pytest.mark.parametrize("prefix", ["", "Upper", "a-b", "x" * 32, "a;b", "1a", "a`b"])
def test_a_prefix_that_could_be_more_than_a_name_is_refused(prefix: str) -> None:
    with pytest.raises(fencelock.Misconfigured, match="table must be"):
        schema(prefix)
    with pytest.raises(fencelock.Misconfigured, match="table must be"):
        fencelock.connect("mysql://127.0.0.1:1/locks", table=prefix).open()


def test_rows_of_unused_names_go_and_their_fences_stay(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the clock was set back: here a fence of the far future stands for that."""
    monkeypatch.setattr(lease_sql, "UNUSED_US", -1_000_000)
    with fencelock.connect(server.url(), table=table) as client:
        with client.lock("old") as lease:
            future = lease.fence + 10**12
            server.ask(f"UPDATE locks.{table}_locks SET fence = {future}")
        crashed = client.lock("crashed", ttl=0.5, renew=False).acquire()
        assert crashed.lost.wait(10)
        _clean_up(client)
        assert _names(server, table) == [b"crashed", b"old"]  # the fence is lifted first
        _clean_up(client)
        assert _names(server, table) == []
        for name in ("old", "new"):
            with client.lock(name) as after:
                assert after.fence > future
        crashed.release()


def _clean_up(client: fencelock.Client) -> None:
    from fencelock.worlds.threads import drive

    engine: Any = client._core.engine
    drive(engine._cleanup._run())


def _names(server: SqlServer, table: str) -> list[bytes]:
    return [name for (name,) in server.ask(f"SELECT name FROM locks.{table}_locks ORDER BY name")]
