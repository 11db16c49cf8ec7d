"""How SQL guards are used oddly: names of tables, connections of all kinds, both ways to count."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from pymysql.constants.CLIENT import FOUND_ROWS
from pymysql.cursors import DictCursor
from sqlalchemy import create_engine

from fencelock import Misconfigured, StaleFence, UsageError
from fencelock.guards.sql import RowGuard, SqlGuard
from tests.servers.mariadb import DATABASE, USER, mariadb
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared

NAME = "stock:42"
TIMEOUT_S = 30


@pytest.fixture
def table() -> str:
    return f"marks_{uuid4().hex[:12]}"


def test_mysql_would_commit_a_transaction_to_create_a_table(table: str) -> None:
    guard = SqlGuard(table)
    with shared(mariadb).connect() as connection:
        connection.begin()
        with pytest.raises(UsageError, match="commit"):
            guard.create(connection)


@pytest.mark.parametrize("flags", [0, FOUND_ROWS])
def test_whether_mysql_counts_found_or_changed_rows_makes_no_difference(
    flags: int, table: str
) -> None:
    server = shared(mariadb)
    with server.connect(client_flag=flags) as connection:
        marks, rows = SqlGuard(table), RowGuard(f"{table}_rows")
        marks.create(connection)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {rows.table} (id int PRIMARY KEY, n int, fence bigint)")
            cursor.execute(f"INSERT INTO {rows.table} VALUES (1, 1, 0)")
        connection.autocommit(False)
        for fence in (5, 5, 6):
            marks.enter(connection, fence, NAME)
            rows.update(connection, fence, {"id": 1}, {"n": 2})
            rows.update(connection, fence, {"id": 1}, {"n": 2})
        with pytest.raises(StaleFence):
            marks.enter(connection, 5, NAME)
        with pytest.raises(StaleFence):
            rows.update(connection, 5, {"id": 1}, {"n": 2})
        connection.rollback()


def test_a_schema_can_be_named_with_the_table(table: str) -> None:
    guard = SqlGuard(f"public.{table}")
    with psycopg.connect(shared(Postgresql).url()) as connection:
        guard.create(connection)
        guard.create(connection)
        guard.enter(connection, 5, NAME)
        assert guard.mark(connection, NAME) == SqlGuard(table).mark(connection, NAME) == 5
        connection.rollback()
    guard = SqlGuard(f"{DATABASE}.{table}")
    with shared(mariadb).connect(USER) as connection:
        guard.create(connection)
        guard.create(connection)
        assert guard.mark(connection, NAME) == 0


def test_eight_at_once_make_one_table(table: str) -> None:
    guard, url = SqlGuard(table), shared(Postgresql).url()
    gate, failed = threading.Barrier(8), list[BaseException]()

    def make() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            gate.wait(TIMEOUT_S)
            try:
                guard.create(connection)
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert failed == []


def test_rows_may_be_made_into_whatever_the_caller_likes(tmp_path: Path, table: str) -> None:
    guard = SqlGuard(table)
    connect: Any = psycopg.connect
    with connect(shared(Postgresql).url(), row_factory=dict_row) as connection:
        guard.create(connection)
        guard.enter(connection, 5, NAME)
        assert guard.mark(connection, NAME) == 5
        with pytest.raises(StaleFence):
            guard.enter(connection, 4, NAME)
        connection.rollback()
    with shared(mariadb).connect(cursorclass=DictCursor) as other:
        guard.create(other)
        assert guard.mark(other, NAME) == 0
    db = sqlite3.connect(tmp_path / "db")
    db.row_factory = sqlite3.Row
    guard.create(db)
    guard.enter(db, 5, NAME)
    with pytest.raises(StaleFence):
        guard.enter(db, 4, NAME)
    db.close()


@pytest.mark.parametrize(
    "wrong",
    ["", "1st", "a-b", "a b", "a;b", 'a"b', "a.b.c", "a.", ".a", "x" * 64, "ä", "a\n", None, 7],
)
def test_a_table_has_a_plain_name(wrong: Any) -> None:
    with pytest.raises(UsageError):
        SqlGuard(wrong)
    with pytest.raises(UsageError):
        RowGuard(wrong)


def test_columns_have_plain_names(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "db")
    rows = RowGuard("stock")
    for key, values in (
        ({}, {"n": 1}),
        ({"id = 1 OR 1": 1}, {"n": 1}),
        ({"id": 1}, {"n = 1, m": 1}),
        ({"id": 1}, {"a.b": 1}),
        ({"id": 1}, {"Fence": 1}),
    ):
        with pytest.raises(UsageError):
            rows.update(db, 5, key, values)
    with pytest.raises(UsageError):
        RowGuard("stock", column="a.b")
    db.close()


@pytest.mark.parametrize("wrong", [object(), None, "sqlite:///x", 7])
def test_what_is_no_connection_is_told(wrong: Any) -> None:
    with pytest.raises(UsageError, match="dialect="):
        SqlGuard().enter(wrong, 5, NAME)


def test_a_cursor_is_no_connection(guard: SqlGuard) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        with pytest.raises(UsageError, match="Cursor leads to: pass a connection"):
            guard.enter(db.cursor(), 5, "stock:42")


@pytest.mark.parametrize("key", [42, "id=42", [("id", 42)]], ids=repr)
def test_a_row_is_told_by_its_columns(key: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        rows = RowGuard("stock")
        with pytest.raises(UsageError, match="not as"):
            rows.update(db, 5, key, {"n": 1})
        with pytest.raises(UsageError, match="not as"):
            rows.update(db, 5, {"id": 42}, key)
        with pytest.raises(UsageError, match="not as"):
            rows.mark(db, key)


def test_a_missing_column_is_told_with_the_statement_that_adds_it() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER)")
        with pytest.raises(Misconfigured, match="ALTER TABLE stock ADD COLUMN fence bigint"):
            RowGuard("stock").update(db, 5, {"id": 42}, {"n": 1})


def test_a_schema_is_of_some_database() -> None:
    with pytest.raises(UsageError, match="name a dialect: it is one of sqlite"):
        SqlGuard().schema()


def test_sqlalchemy_needs_no_greenlet_where_nothing_is_awaited() -> None:
    """SQLAlchemy 2.1 does not bring it, and its module for asyncio cannot be imported without."""
    code = """
import sys
sys.modules["greenlet"] = sys.modules["sqlalchemy.ext.asyncio"] = None
import fencelock.guards.sqlalchemy
from fencelock.guards.sql import SqlGuard
from sqlalchemy import create_engine
with create_engine("sqlite://").connect() as connection:
    SqlGuard().create(connection)
    SqlGuard().enter(connection, 5, "stock:42")
    assert SqlGuard().mark(connection, "stock:42") == 5
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_a_pool_of_sqlalchemy_is_no_connection() -> None:
    with pytest.raises(UsageError, match="Session"):
        SqlGuard().enter(create_engine("sqlite://"), 5, NAME)


def test_a_connection_of_ones_own_class_is_known_by_its_base(tmp_path: Path) -> None:
    class Mine(sqlite3.Connection):
        pass

    db = sqlite3.connect(tmp_path / "db", factory=Mine)
    SqlGuard().create(db)
    db.close()


class Wrapped:
    """A connection that says nothing of where it leads."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_an_unknown_wrapper_works_when_the_dialect_is_named(tmp_path: Path) -> None:
    db = Wrapped(sqlite3.connect(tmp_path / "db"))
    guard = SqlGuard(dialect="sqlite")
    guard.create(db)
    guard.enter(db, 5, NAME)
    assert guard.mark(db, NAME) == 5
    db.close()
    with pytest.raises(UsageError, match="oracle"):
        SqlGuard(dialect="oracle")
    with pytest.raises(UsageError):
        SqlGuard().schema()
    for name in ("sqlite", "postgresql", "mysql", "mariadb"):
        assert "fencelock_marks" in SqlGuard().schema(name)


@pytest.mark.parametrize("epoch", [-1, 1024, True, "1", None, 1.0])
def test_an_epoch_is_a_small_number(epoch: Any) -> None:
    with pytest.raises(UsageError):
        SqlGuard(epoch=epoch)
    with pytest.raises(UsageError):
        RowGuard("stock", epoch=epoch)
