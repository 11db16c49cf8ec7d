"""Statements that psycopg has prepared: what drops them does no harm to a guard."""

from __future__ import annotations

from typing import Any

import psycopg

from fencelock.guards.sql import SqlGuard
from tests.guards.sql.psycopg.entering import check, enter_in_block, prepare
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.shared import shared


def test_statements_that_were_dropped_are_prepared_again(db: Any, guard: SqlGuard) -> None:
    for sql, alone in [("ROLLBACK", False), ("DISCARD ALL", True), ("DEALLOCATE ALL", True)]:
        prepare(guard, db, 7)
        db.autocommit = alone
        db.execute(sql)
        db.rollback()
        db.autocommit = False
        for _ in range(8):
            enter_in_block(guard, db, 7)


def test_a_pool_of_connections_between_does_no_harm(guard: SqlGuard) -> None:
    """PgBouncer gives each transaction another session: psycopg must be told to prepare nothing."""
    with psycopg.connect(shared(Pgbouncer).url()) as maker:
        guard.create(maker)
    url = shared(Pgbouncer).url()
    clients = [psycopg.connect(url, prepare_threshold=None) for _ in range(3)]
    fence = 0
    for _ in range(4):
        for client in clients:
            fence += 10
            check(guard, client, fence)
    for client in clients:
        client.close()
