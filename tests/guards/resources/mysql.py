"""A counter in MySQL, behind SqlGuard over PyMySQL: the same as in MariaDB."""

from __future__ import annotations

from tests.guards.resources import mariadb
from tests.servers.mariadb import SqlServer
from tests.servers.mysql import MySQL
from tests.servers.shared import shared


def quick() -> MySQL:
    """It is clients that are killed here, so the server need not wait for the disk."""
    return MySQL("innodb-flush-log-at-trx-commit=0")


class Counter(mariadb.Counter):
    @classmethod
    def server(cls) -> SqlServer:
        return shared(quick)
