"""What goes wrong at a database, as the caller of a guard sees it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pymysql
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import create_engine

from fencelock import Denied, EngineError, Misconfigured, StaleFence, Unavailable
from fencelock.guards.sql import RowGuard, SqlGuard
from tests.guards.sql.hands import KINDS
from tests.servers.mariadb import MariaDB, mariadb
from tests.servers.postgresql import Postgresql
from tests.servers.server import until
from tests.servers.shared import shared

NAME = "stock:42"
TIMEOUT_S = 30


@pytest.fixture
def table() -> str:
    return f"marks_{uuid4().hex[:12]}"


# A store that cannot be reached


@pytest.mark.parametrize("over", ["driver", "sqlalchemy"])
def test_a_postgresql_server_that_died_is_unavailable_and_nothing_was_done(over: str) -> None:
    guard = SqlGuard()
    with Postgresql() as server:
        engine = create_engine(server.url().replace("postgresql:", "postgresql+psycopg:"))
        with psycopg.connect(server.url()) as made:
            guard.create(made)
            made.execute("CREATE TABLE stock (n int)")
            made.execute("INSERT INTO stock VALUES (1)")
        direct = psycopg.connect(server.url())
        connection: Any = direct if over == "driver" else engine.connect()
        guard.enter(connection, 5, NAME)
        connection.commit()
        server.kill()
        with pytest.raises(Unavailable, match="nothing happened"):
            guard.enter(connection, 6, NAME)
        connection.close()
        direct.close()
        engine.dispose()
        server.start()
        with psycopg.connect(server.url()) as again:
            assert guard.mark(again, NAME) == 5


def test_a_mariadb_server_that_died_is_unavailable() -> None:
    guard = SqlGuard()
    with MariaDB() as server:
        connection = server.connect()
        guard.create(connection)
        connection.autocommit(False)
        guard.enter(connection, 5, NAME)
        server.kill()
        with pytest.raises(Unavailable, match="nothing happened"):
            guard.enter(connection, 6, NAME)


def test_a_disk_that_is_full_is_unavailable(tmp_path: Path, table: str) -> None:
    guard = SqlGuard(table)
    db = sqlite3.connect(tmp_path / "db")
    guard.create(db)
    db.execute("PRAGMA max_page_count = 3")
    with pytest.raises(Unavailable, match="full"):
        for number in range(1000):
            guard.enter(db, 5, f"{number} {'x' * 400}")
    db.rollback()
    assert guard.mark(db, NAME) == 0
    db.close()


# A store that refuses


def test_who_may_not_write_the_marks_is_denied(table: str) -> None:
    guard, server = SqlGuard(table), shared(Postgresql)
    with psycopg.connect(server.url()) as owner:
        guard.create(owner)
        role = Identifier(f"role_{table}")
        owner.execute(SQL("CREATE ROLE {}").format(role))
        owner.commit()
        owner.execute(SQL("SET ROLE {}").format(role))
        with pytest.raises(Denied, match="Grant"):
            guard.enter(owner, 5, NAME)
        owner.rollback()


def test_a_standby_cannot_guard(table: str) -> None:
    guard = SqlGuard(table)
    with psycopg.connect(shared(Postgresql).url()) as connection:
        guard.create(connection)
        connection.commit()
        connection.execute("SET TRANSACTION READ ONLY")  # as all of a standby's are
        with pytest.raises(Unavailable, match="read-only"):
            guard.enter(connection, 5, NAME)
        connection.rollback()


def test_a_failed_transaction_stays_failed(table: str) -> None:
    guard = SqlGuard(table)
    with psycopg.connect(shared(Postgresql).url()) as connection:
        guard.create(connection)
        connection.commit()
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(EngineError):
            guard.enter(connection, 5, NAME)
        connection.rollback()


# What is to be tried again is passed on


def test_a_serialization_failure_is_passed_on(table: str) -> None:
    guard, url = SqlGuard(table), shared(Postgresql).url()
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        guard.create(first)
        first.commit()
        second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        second.execute("SELECT 1").fetchone()
        guard.mark(second, NAME)  # reads before it enters, which is too early
        guard.enter(first, 7, NAME)
        first.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            guard.enter(second, 8, NAME)
        second.rollback()
        guard.enter(second, 8, NAME)
        second.rollback()


def test_a_deadlock_is_passed_on_to_one_of_the_two(table: str) -> None:
    guard, url = SqlGuard(table), shared(Postgresql).url()
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        guard.create(first)
        first.commit()
        guard.enter(first, 5, "a")
        guard.enter(second, 5, "b")
        caught: list[BaseException] = []

        def cross() -> None:
            try:
                guard.enter(second, 5, "a")
            except psycopg.errors.DeadlockDetected as error:
                caught.append(error)
            second.rollback()

        thread = threading.Thread(target=cross)
        thread.start()
        try:
            guard.enter(first, 5, "b")
        except psycopg.errors.DeadlockDetected as error:
            caught.append(error)
        first.rollback()
        thread.join(TIMEOUT_S)
        assert len(caught) == 1


def test_a_wait_that_takes_too_long_is_passed_on_by_mariadb(table: str) -> None:
    guard, server = SqlGuard(table), shared(mariadb)
    with server.connect() as first, server.connect() as second:
        guard.create(first)
        first.autocommit(False)
        second.autocommit(False)
        with second.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 1")
        guard.enter(first, 5, NAME)
        # Not pymysql.err's: who uses it under the name of MySQLdb, as Django does, loads that anew.
        with pytest.raises(pymysql.OperationalError) as caught:
            guard.enter(second, 6, NAME)
        assert caught.value.args[0] == 1205
        first.rollback()
        second.rollback()


def test_a_busy_file_is_passed_on(tmp_path: Path, table: str) -> None:
    guard = SqlGuard(table)
    first, second = (sqlite3.connect(tmp_path / "db", timeout=0) for _ in range(2))
    guard.create(first)
    guard.enter(first, 5, NAME)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        guard.enter(second, 6, NAME)
    first.close()
    second.close()


# Waiting is seen at the server


def test_postgresql_lets_the_second_wait_and_then_judges_it(table: str) -> None:
    guard, server = SqlGuard(table), shared(Postgresql)
    with psycopg.connect(server.url()) as first, psycopg.connect(server.url()) as second:
        guard.create(first)
        guard.enter(first, 1, NAME)
        first.commit()
        guard.enter(first, 7, NAME)
        pid = second.info.backend_pid
        caught: list[BaseException] = []

        def come_late() -> None:
            try:
                guard.enter(second, 6, NAME)
            except StaleFence as error:
                caught.append(error)
            second.rollback()

        thread = threading.Thread(target=come_late)
        thread.start()
        waits = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {pid}"
        until(lambda: server.psql(waits) == "Lock", "the second to wait")
        first.commit()
        thread.join(TIMEOUT_S)
        assert [type(error) for error in caught] == [StaleFence]


def test_mariadb_at_repeatable_read_sees_what_it_waited_for(table: str) -> None:
    guard, server = SqlGuard(table), shared(mariadb)
    with server.connect() as first, server.connect() as second:
        guard.create(first)
        for connection in (first, second):
            connection.autocommit(False)
        guard.enter(first, 7, NAME)
        first.commit()
        with second.cursor() as cursor:  # an old snapshot does not hide the mark
            cursor.execute(f"SELECT * FROM {table}")
        guard.enter(first, 9, NAME)
        first.commit()
        with pytest.raises(StaleFence) as caught:
            guard.enter(second, 8, NAME)
        assert caught.value.highest == 9
        second.rollback()


# A table that is not as the guard was told


@pytest.mark.parametrize("kind", ["sqlite3", "psycopg", "pymysql-mariadb", "sqlalchemy-postgresql"])
def test_what_is_missing_in_a_table_is_answered_with_advice_about_that(
    kind: str, table: str, tmp_path: Path
) -> None:
    """In one line: psycopg draws a picture of the statement, with a caret below."""
    _, make = KINDS[kind]
    hand = make(tmp_path)
    hand.execute(f"CREATE TABLE {table} (id int, fence bigint)")
    hand.commit()
    column = rf"ALTER TABLE {table} ADD COLUMN token bigint"
    cases: list[tuple[Any, str]] = [
        (lambda: RowGuard(table).enter(hand.connection, 5, {"idx": 1}), "idx.*Name the columns"),
        (
            lambda: RowGuard(table).update(hand.connection, 5, {"id": 1}, {"m": 2}),
            "m.*Name the col",
        ),
        (lambda: RowGuard(table, "token").enter(hand.connection, 5, {"id": 1}), column),
        (lambda: SqlGuard(table).enter(hand.connection, 5, "seat"), "is no table of marks"),
        (lambda: RowGuard("nothing").enter(hand.connection, 5, {"id": 1}), "the name of a table"),
        (lambda: SqlGuard("nothing").enter(hand.connection, 5, "seat"), r"schema\(\) prints"),
    ]
    for attempt, advice in cases:
        hand.begin()
        with pytest.raises(Misconfigured, match=advice) as caught:
            attempt()
        hand.rollback()
        assert "\n" not in str(caught.value)
        assert "^" not in str(caught.value)
        assert "LINE" not in str(caught.value)
    hand.execute(f"DROP TABLE {table}")
    hand.commit()
    hand.close()
