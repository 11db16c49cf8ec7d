"""A MySQL and a MariaDB server for contestants: one of each for all, durable as installed."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.contestant import Contestant, Gauge, Served
from tests.servers import mysql_program
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import MySQL
from tests.servers.server import Missing, program
from tests.servers.shared import shared


class OnSql(Contestant):
    """Competes over one of the two, which its subclasses say."""

    @classmethod
    @abstractmethod
    def absent(cls) -> str:
        """Why the server cannot be had here, or nothing."""

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

    @classmethod
    def missing(cls) -> str:
        return super().missing() or cls.absent()

    def gauge(self) -> Gauge:
        return SqlGauge(self.plain())


class OnMariadb(OnSql):
    """Competes over MariaDB."""

    field = "mysql on MariaDB"

    @classmethod
    def absent(cls) -> str:
        try:
            program("mariadbd", MariaDB.package)
        except Missing as error:
            return str(error)
        return ""

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return nullcontext(shared(MariaDB).url())


class OnMysql(OnSql):
    """Competes over MySQL."""

    field = "mysql on MySQL"

    @classmethod
    def absent(cls) -> str:
        return "" if mysql_program.find() else mysql_program.ADVICE

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return nullcontext(shared(MySQL).url())


class SqlGauge(Gauge):
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
            clients = [row for row in cursor.fetchall() if row[1] != "event_scheduler"]
        self._looks += 1
        waits = [row for row in clients if row[6] in ("User sleep", "User lock")]
        return Served(questions - self._looks, len(clients) - 1, len(waits))

    def close(self) -> None:
        self._connection.close()
