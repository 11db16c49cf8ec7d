"""Statements that are prepared: they are relied on only where nobody else can drop them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from fencelock import EngineError, StaleFence
from fencelock.guards.sql import SqlGuard, prepared
from tests.guards.sql.psycopg.entering import ASCII, NAME, check, enter_in_block, rely
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.shared import shared


def test_what_psycopg_throws_away_is_not_relied_on(db: Any, guard: SqlGuard) -> None:
    """It does so itself after a rollback, and when it sees that statements are dropped."""
    rely(guard, db, 7)
    drops: list[tuple[str, bool]] = [("ROLLBACK", False)]
    drops += [("DISCARD ALL", True), ("DEALLOCATE ALL", False), ("deallocate all;", True)]
    for _ in range(3):
        for sql, alone in drops:
            db.autocommit = alone
            db.execute(sql)
            db.rollback()
            db.autocommit = False
            for _ in range(3):
                enter_in_block(guard, db, 7)


def test_a_statement_that_vanishes_unseen_fails_once_and_nothing_happens(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    rely(guard, db, 7)
    with pytest.raises(EngineError, match="nothing happened"), db.transaction():
        db.pgconn.exec_(b"DEALLOCATE ALL")
        guard.enter(db, 8, ASCII)
    assert guard.mark(db, ASCII) == 7
    db.rollback()
    assert [enter_in_block(guard, db, 8) for _ in range(3)] == [False, False, False]


def test_a_statement_that_vanishes_unseen_before_a_transaction_is_not_missed(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    rely(guard, db, 7)
    db.pgconn.exec_(b"DEALLOCATE ALL")
    check(guard, db, 8)
    check(guard, db, 10)


def test_statements_that_vanish_are_prepared_again(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    for first in (10, 20, 30):
        check(guard, db, first)
        db.rollback()
        db.autocommit = True
        db.execute("DISCARD ALL" if first < 20 else "DEALLOCATE ALL")
        db.autocommit = False
    check(guard, db, 40)


def test_statements_that_vanish_in_an_open_transaction_cost_nothing_of_it(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    """What the caller did before the guard is still there, and the transaction goes on."""
    db.execute("CREATE TEMPORARY TABLE work (n integer)")
    guard.enter(db, 10, NAME)
    db.commit()
    for fence in (11, 12, 13):
        with db.transaction():
            db.execute("INSERT INTO work VALUES (%s)", (fence,))
            db.execute("DEALLOCATE ALL")
            guard.enter(db, fence, NAME)
            guard.enter(db, fence, NAME)
            with pytest.raises(StaleFence):
                guard.enter(db, fence - 1, NAME)
        assert guard.mark(db, NAME) == fence
    assert db.execute("SELECT n FROM work ORDER BY n").fetchall() == [(11,), (12,), (13,)]


def test_a_statement_that_is_there_already_does_no_harm(
    url: str, db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    check(guard, db, 10)
    prepared._memories.clear()
    check(guard, db, 20)
    check(guard, db, 30)


def test_a_psycopg_that_keeps_its_statements_elsewhere_gets_a_savepoint(
    db: psycopg.Connection[Any], guard: SqlGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_names", lambda _: None)
    assert [enter_in_block(guard, db, fence) for fence in (7, 8, 9)] == [False, False, False]


def test_in_a_block_behind_a_pooler_no_statement_is_relied_on(guard: SqlGuard) -> None:
    with ExitStack() as stack:
        url = shared(Pgbouncer).url()
        clients = [stack.enter_context(psycopg.connect(url)) for _ in range(3)]
        guard.create(clients[0])
        clients[0].commit()
        for fence in range(1, 5):
            for client in clients:
                assert not enter_in_block(guard, client, fence)
        with pytest.raises(StaleFence), clients[0].transaction():
            guard.enter(clients[0], 3, ASCII)


def test_a_pool_of_connections_between_does_no_harm(guard: SqlGuard) -> None:
    """PgBouncer gives each transaction another session, with other statements prepared."""
    with psycopg.connect(shared(Pgbouncer).url()) as maker:
        guard.create(maker)
    clients = [psycopg.connect(shared(Pgbouncer).url()) for _ in range(3)]
    fence = 0
    for _ in range(4):
        for client in clients:
            fence += 10
            check(guard, client, fence)
    for client in clients:
        client.close()
