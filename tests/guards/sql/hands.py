"""One way to work with a database each: a connection, awaited or not, that a test uses alike.

``Hand`` is what the tests of the contract are written over; ``KINDS`` names all of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from tests.servers.mariadb import DATABASE, PASSWORD, USER, SqlServer, mariadb
from tests.servers.mysql import mysql
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared

TIMEOUT_S = 30


class Hand:
    """A connection of some kind, with what a test does besides entering guards."""

    def __init__(self, connection: Any, runner: asyncio.Runner | None = None) -> None:
        self.runner = runner
        self.connection = connection

    def do(self, given: Any) -> Any:
        """What came of it, now or after awaiting it."""
        if not isawaitable(given):
            return given
        assert self.runner is not None, "a blocking driver must not answer later"

        async def wait() -> Any:
            return await given

        return self.runner.run(wait())

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.do(self.connection.cursor())
        self.do(cursor.execute(sql))
        rows = self.do(cursor.fetchall()) if sql.startswith("SELECT") else []
        self.do(cursor.close())
        return [tuple(row) for row in rows]

    def begin(self) -> None:
        """Drivers do it themselves."""

    def commit(self) -> None:
        self.do(self.connection.commit())

    def rollback(self) -> None:
        self.do(self.connection.rollback())

    def alone(self) -> None:
        """From now on each statement is a transaction of its own."""
        raise NotImplementedError

    def close(self) -> None:
        self.do(self.connection.close())


class SqliteHand(Hand):
    def alone(self) -> None:
        self.connection.isolation_level = None


class AioSqliteHand(Hand):
    def alone(self) -> None:
        inner = self.connection
        self.do(inner._execute(setattr, inner._conn, "isolation_level", None))  # in its own thread


class PsycopgHand(Hand):
    def alone(self) -> None:
        if self.runner is None:
            self.connection.autocommit = True
        else:
            self.do(self.connection.set_autocommit(True))


class MysqlHand(Hand):
    def alone(self) -> None:
        self.do(self.connection.autocommit(True))


class AlchemyHand(Hand):
    """SQLAlchemy's Connection, of either flavor."""

    def __init__(self, engine: Any, runner: asyncio.Runner | None = None) -> None:
        super().__init__(None, runner)
        self._engine = engine
        self.connection = self._connect(engine)

    def _connect(self, engine: Any) -> Any:
        connection = engine.connect()
        return self.do(connection.start()) if self.runner else connection

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        result = self.do(self.connection.exec_driver_sql(sql))
        return [tuple(row) for row in result] if sql.startswith("SELECT") else []

    def alone(self) -> None:
        self.close()
        self.connection = self._connect(
            self._engine.execution_options(isolation_level="AUTOCOMMIT")
        )

    def close(self) -> None:
        super().close()
        self.do(self._engine.dispose())


class DjangoHand(Hand):
    """Django's connection, with transactions by hand as ``transaction.atomic`` has them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from django.db.utils import ConnectionHandler

        from tests.guards.sql import django_site

        django_site.ready()
        super().__init__(ConnectionHandler({"default": settings})["default"])
        self.connection.inc_thread_sharing()
        self.connection.set_autocommit(False)

    def alone(self) -> None:
        self.connection.set_autocommit(True)


def _sqlite(folder: Path) -> Hand:
    return SqliteHand(sqlite3.connect(folder / "db", timeout=TIMEOUT_S, check_same_thread=False))


def _aiosqlite(folder: Path) -> Hand:
    import aiosqlite

    runner = asyncio.Runner()

    async def connect() -> Any:
        return await aiosqlite.connect(folder / "db", timeout=TIMEOUT_S)

    return AioSqliteHand(runner.run(connect()), runner)


def _psycopg(folder: Path) -> Hand:
    import psycopg

    return PsycopgHand(psycopg.connect(shared(Postgresql).url()))


def _psycopg_aio(folder: Path) -> Hand:
    import psycopg

    runner = asyncio.Runner()
    return PsycopgHand(
        runner.run(psycopg.AsyncConnection.connect(shared(Postgresql).url())), runner
    )


def _pymysql(server: Callable[[], SqlServer]) -> Callable[[Path], Hand]:
    def make(folder: Path) -> Hand:
        connection = shared(server).connect()
        connection.autocommit(False)
        return MysqlHand(connection)

    return make


def _aiomysql(server: Callable[[], SqlServer]) -> Callable[[Path], Hand]:
    def make(folder: Path) -> Hand:
        import aiomysql  # type: ignore[import-untyped]

        runner = asyncio.Runner()

        async def connect() -> Any:
            return await aiomysql.connect(
                host="127.0.0.1",
                port=shared(server).port,
                user=USER,
                password=PASSWORD,
                db=DATABASE,
            )

        return MysqlHand(runner.run(connect()), runner)

    return make


SERVERS: dict[str, Callable[[], SqlServer]] = {"mariadb": mariadb, "mysql": mysql}


def url_of(store: str, folder: Path, driver: str) -> str:
    """The URL of a database, as SQLAlchemy has it."""
    if store == "sqlite":
        return f"sqlite+{driver}:///{folder / 'db'}?timeout={TIMEOUT_S}"
    if store == "postgresql":
        return shared(Postgresql).url().replace("postgresql:", f"postgresql+{driver}:")
    where = f"127.0.0.1:{shared(SERVERS[store]).port}/{DATABASE}"
    return f"mysql+{driver}://{USER}:{quote_plus(PASSWORD)}@{where}"


def _alchemy(store: str, driver: str) -> Callable[[Path], Hand]:
    def make(folder: Path) -> Hand:
        from sqlalchemy import create_engine

        return AlchemyHand(create_engine(url_of(store, folder, driver)))

    return make


def _alchemy_aio(store: str, driver: str) -> Callable[[Path], Hand]:
    def make(folder: Path) -> Hand:
        from sqlalchemy.ext.asyncio import create_async_engine

        return AlchemyHand(create_async_engine(url_of(store, folder, driver)), asyncio.Runner())

    return make


def django_database(store: str, folder: Path) -> dict[str, Any]:
    """The settings of a database, as Django has them."""
    if store == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(folder / "db"),
            "OPTIONS": {"timeout": TIMEOUT_S, "transaction_mode": "IMMEDIATE"},
        }
    if store in SERVERS:
        import pymysql

        pymysql.install_as_MySQLdb()  # Django knows no other driver than mysqlclient
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": DATABASE,
            "USER": USER,
            "PASSWORD": PASSWORD,
            "HOST": "127.0.0.1",
            "PORT": shared(SERVERS[store]).port,
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": shared(Postgresql).port,
    }


KINDS: dict[str, tuple[str, Callable[[Path], Hand]]] = {
    "sqlite3": ("sqlite", _sqlite),
    "aiosqlite": ("sqlite", _aiosqlite),
    "psycopg": ("postgresql", _psycopg),
    "psycopg-asyncio": ("postgresql", _psycopg_aio),
    "pymysql-mariadb": ("mysql", _pymysql(mariadb)),
    "aiomysql-mariadb": ("mysql", _aiomysql(mariadb)),
    "pymysql-mysql": ("mysql", _pymysql(mysql)),
    "aiomysql-mysql": ("mysql", _aiomysql(mysql)),
    "sqlalchemy-sqlite": ("sqlite", _alchemy("sqlite", "pysqlite")),
    "sqlalchemy-postgresql": ("postgresql", _alchemy("postgresql", "psycopg")),
    "sqlalchemy-mariadb": ("mysql", _alchemy("mariadb", "pymysql")),
    "sqlalchemy-mysql": ("mysql", _alchemy("mysql", "pymysql")),
    "sqlalchemy-asyncio-sqlite": ("sqlite", _alchemy_aio("sqlite", "aiosqlite")),
    "sqlalchemy-asyncio-postgresql": ("postgresql", _alchemy_aio("postgresql", "psycopg")),
    "sqlalchemy-asyncio-mysql": ("mysql", _alchemy_aio("mysql", "aiomysql")),
    "django-sqlite": ("sqlite", lambda folder: DjangoHand(django_database("sqlite", folder))),
    "django-postgresql": (
        "postgresql",
        lambda folder: DjangoHand(django_database("postgresql", folder)),
    ),
    "django-mysql": ("mysql", lambda folder: DjangoHand(django_database("mysql", folder))),
}
