"""The resources that guards protect in the tests of the claim: one counter each.

A resource is a module here with a class ``Counter`` of the shape below, and one line in ``TABLE``.
The tests beside this folder do the same to all of them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

TABLE: dict[str, str] = {
    "files": "tests.guards.resources.files",
    "http": "tests.guards.resources.http",
    "redis": "tests.guards.resources.redis",
    "wsgi": "tests.guards.resources.wsgi",
    "sqlite": "tests.guards.resources.sqlite",
    "postgresql": "tests.guards.resources.postgresql",
    "postgresql in a block": "tests.guards.resources.postgresql_block",
    "mariadb": "tests.guards.resources.mariadb",
    "mysql": "tests.guards.resources.mysql",
    "rows": "tests.guards.resources.rows",
    "rows of postgresql": "tests.guards.resources.postgresql_rows",
    "rows of mariadb": "tests.guards.resources.mariadb_rows",
    "sqlalchemy": "tests.guards.resources.sqlalchemy",
    "django": "tests.guards.resources.django",
    "etcd": "tests.guards.resources.etcd",
    "zookeeper": "tests.guards.resources.zookeeper",
    "dynamodb": "tests.guards.resources.dynamodb",
    "dynalite": "tests.guards.resources.dynalite",
    "s3": "tests.guards.resources.s3",
}


class Counter(Protocol):
    """A number at the resource, as one process sees it: with the guard and without."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        """Make a counter that nobody else uses, 0 and with no mark; say where, as JSON.

        Called once for each test, in its own process; servers come from ``tests.servers.shared``.
        """
        ...

    def __init__(self, where: str) -> None:
        """Reach it, from any process."""
        ...

    def enter(self, fence: int, reading: bool = False) -> int:
        """Raise the mark and read the number in one atomic step, or raise StaleFence.

        With ``reading``, by the fence of a read lock.
        """
        ...

    def write(self, value: int, fence: int) -> None:
        """Write the number and raise the mark in one atomic step, or raise StaleFence."""
        ...

    def read(self) -> int:
        """Read the number as somebody does who knows of no guard."""
        ...

    def write_bare(self, value: int) -> None:
        """Write the number as somebody does who knows of no guard."""
        ...

    def mark(self, reading: bool = False) -> int:
        """The highest fence that the resource has seen, 0 when it has seen none.

        With ``reading``, the highest of a writer.
        """
        ...

    def close(self) -> None: ...


def load(place: str) -> type[Counter]:
    """The counter of a module, or the class that is named: ``module:Class``."""
    module, _, name = place.partition(":")
    kind: type[Counter] = getattr(import_module(module), name or "Counter")
    return kind
