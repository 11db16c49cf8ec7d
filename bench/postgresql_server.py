"""A PostgreSQL server for contestants: one for all, durable, and looked at from any process."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from bench.contestant import Contestant, Gauge, Served
from tests.servers.postgresql import Postgresql, binary
from tests.servers.server import Missing
from tests.servers.shared import shared


def durable() -> Postgresql:
    """Its commits are on disk before they are answered."""
    return Postgresql(settings={"fsync": "on", "max_connections": "400"})


class OnPostgresql(Contestant):
    """Competes over one server, in tables of its own."""

    field = "postgresql"
    needs: ClassVar[tuple[str, ...]] = ("psycopg",)

    @classmethod
    def missing(cls) -> str:
        return super().missing() or _absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return nullcontext(shared(durable).url())

    def gauge(self) -> Gauge:
        import psycopg

        return PostgresqlGauge(psycopg.connect(self.place, autocommit=True))


class PostgresqlGauge(Gauge):
    """Counts transactions, which is what the server counts."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._looks = 0

    def look(self) -> Served:
        self._looks += 1
        (transactions, clients, listening) = self._connection.execute(
            "SELECT (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database)::int8,"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
            " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2)"
        ).fetchone()
        return Served(transactions - self._looks, clients - 1, listening)

    def close(self) -> None:
        self._connection.close()


def _absent() -> str:
    try:
        binary("postgres")
    except Missing as error:
        return str(error)
    return ""
