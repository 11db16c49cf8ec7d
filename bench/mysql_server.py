"""A MariaDB server for contestants: durable as installed, and looked at from any process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.contestant import Contestant, Gauge, Served
from tests.servers.mariadb import MariaDB
from tests.servers.server import Missing, program


class OnMysql(Contestant):
    """Competes over a server of its own."""

    field = "mysql"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or _absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)

    def plain(self) -> Any:
        """A connection of the plain driver."""
        import pymysql

        parts = urlsplit(self.place)
        return pymysql.connect(
            host="127.0.0.1",
            port=parts.port or 0,
            user=parts.username,
            password=unquote(parts.password or ""),
            database=parts.path.strip("/"),
            autocommit=True,
        )

    def gauge(self) -> Gauge:
        return MysqlGauge(self.plain())


class MysqlGauge(Gauge):
    """Counts statements, which is more than round trips where several go in one packet."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._looks = 0

    def look(self) -> Served:
        self._looks += 1
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions')")
            questions = int(cursor.fetchone()[1])
            cursor.execute("SHOW PROCESSLIST")
            clients = cursor.fetchall()
        self._looks += 1
        waits = [row for row in clients if row[6] in ("User sleep", "User lock")]
        return Served(questions - self._looks, len(clients) - 1, len(waits))

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with MariaDB(folder=folder) as server:
        yield server.url()


def _absent() -> str:
    try:
        program("mariadbd", MariaDB.package)
    except Missing as error:
        return str(error)
    return ""
