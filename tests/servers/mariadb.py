"""A MariaDB server for tests, and what it has in common with MySQL's.

Each has a data folder of its own, two accounts and one database.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from tests.servers.server import NotStarted, Server, program

ADMIN, USER, PASSWORD, DATABASE = "admin", "tester", "s3cret/p@ss", "locks"
_QUOTED = "s3cret%2Fp%40ss"
_SNAPSHOT_S = 0.15

# Run at each start: one statement per line.
_SETUP = f"""\
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON {DATABASE}.* TO '{USER}'@'%';
GRANT ALL ON fencelock.* TO '{USER}'@'%';
CREATE USER IF NOT EXISTS '{ADMIN}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO '{ADMIN}'@'%' WITH GRANT OPTION;
"""


class SqlServer(Server):
    """One server of either kind. ``settings`` are options of its command line, without dashes."""

    is_mariadb: ClassVar[bool]

    def __init__(self, *settings: str, folder: Path | None = None, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.settings = settings

    def prepare(self) -> None:
        (self.folder / "setup.sql").write_text(_SETUP)
        (self.folder / "tmp").mkdir(exist_ok=True)

    def options(self) -> list[str]:
        """What both are told."""
        return [
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder / 'tmp'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder / 's.sock'}",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--init-file={self.folder / 'setup.sql'}",
            "--innodb-buffer-pool-size=16M",
            "--skip-name-resolve",
            "--max-connections=500",
            *as_root(),
            *(f"--{setting}" for setting in self.settings),
        ]

    def answers(self) -> bool:
        self.connect().close()
        return True

    def pause(self) -> None:
        """Freeze it. On a busy machine its threads go on for a while: wait until they do not."""
        super().pause()
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def connect(self, user: str = USER, port: int | None = None, **options: Any) -> Any:
        """A connection of the plain driver, for what tests do by hand."""
        return pymysql.connect(
            host="127.0.0.1",
            port=port or self.port,
            user=user,
            password=PASSWORD,
            database=DATABASE,
            autocommit=True,
            **options,
        )

    def ask(self, sql: str, user: str = ADMIN) -> list[tuple[Any, ...]]:
        """Run one statement as the administrator, or as another."""
        with self.connect(user) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def transactions(self) -> list[tuple[Any, ...]]:
        """The transactions that are open: their sessions, when they began and what they run.

        InnoDB has one snapshot for all who look, and makes another only if nobody has looked for
        0.1 s. Whoever looks more often sees for ever what was open at the first look.
        """
        time.sleep(_SNAPSHOT_S)
        return self.ask(
            "SELECT trx_mysql_thread_id,trx_state,trx_started,trx_query"
            " FROM information_schema.innodb_trx"
        )

    def url(self, scheme: str = "mysql", port: int | None = None) -> str:
        return f"{scheme}://{USER}:{_QUOTED}@127.0.0.1:{port or self.port}/{DATABASE}"


class MariaDB(SqlServer):
    """One mariadbd."""

    package: ClassVar = "mariadb-server"
    is_mariadb = True

    def prepare(self) -> None:
        """Make the system tables."""
        super().prepare()
        made = subprocess.run(
            [
                program("mariadb-install-db", self.package),
                "--no-defaults",
                f"--datadir={self.folder / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *as_root(),
            ],
            # Not the common one: a server that starts removes the temporary tables that it finds.
            env={**os.environ, "TMPDIR": str(self.folder / "tmp")},
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise NotStarted(f"mariadb-install-db: {made.stdout[-1000:]}{made.stderr[-1000:]}")

    def command(self) -> Sequence[str]:
        return [
            program("mariadbd", self.package),
            "--no-defaults",
            *self.options(),
        ]


def as_root() -> list[str]:
    """They run as root only if they are told to."""
    return ["--user=root"] if os.getuid() == 0 else []


def mariadb() -> MariaDB:
    """The server that most tests share: ``shared(mariadb)``."""
    return MariaDB()
