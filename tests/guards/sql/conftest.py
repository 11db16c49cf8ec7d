"""A database of some kind, and guards with tables of their own in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from fencelock.guards.sql import RowGuard, SqlGuard
from tests.guards.sql import django_site
from tests.guards.sql.hands import KINDS, Hand, django_database
from tests.servers.mariadb import ADMIN
from tests.servers.mysql import mysql
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared


class Place:
    """A database in which tables of a guard are nobody else's."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.store, self._make = KINDS[kind]
        self._folder = folder
        self._hands: list[Hand] = []
        self._id = uuid4().hex[:12]
        self.guard = SqlGuard(table=f"marks_{self._id}")
        self.rows = RowGuard(f"stock_{self._id}")
        self.rows_of_writers = RowGuard(f"shelf_{self._id}")

    def hand(self) -> Hand:
        """A connection of its own."""
        hand = self._make(self._folder)
        self._hands.append(hand)
        return hand

    def prepare(self) -> None:
        """Make the tables."""
        hand = self.hand()
        hand.do(self.guard.create(hand.connection))
        hand.commit()
        readers = ", fence_read bigint, fence_write bigint"
        for guard, more in ((self.rows, readers), (self.rows_of_writers, "")):
            table = f"CREATE TABLE {guard.table} (id int PRIMARY KEY, n int, fence bigint{more})"
            hand.execute(f"{table} {'ENGINE=InnoDB' if self.store == 'mysql' else ''}")
            rows = "(id, n, fence) VALUES (42, 1, 0), (43, 1, NULL)"
            hand.execute(f"INSERT INTO {guard.table} {rows}")
        hand.commit()

    def close(self) -> None:
        for hand in self._hands:
            hand.close()
            if hand.runner is not None:
                hand.runner.close()


@pytest.fixture(params=sorted(KINDS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    found = Place(request.param, tmp_path)
    found.prepare()
    yield found
    found.close()


@pytest.fixture
def hand(place: Place) -> Hand:
    return place.hand()


@pytest.fixture
def other(place: Place) -> Hand:
    """A second connection to the same database."""
    return place.hand()


@pytest.fixture
def guard(place: Place) -> SqlGuard:
    return place.guard


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def using(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The alias of a database of Django's that is nobody else's."""
    django_site.ready()
    from django.db import connections

    from tests.guards.sql.django_models import Shelf

    alias = f"db{uuid4().hex[:12]}"
    database = django_database(request.param, tmp_path)
    if request.param == "postgresql":
        shared(Postgresql).psql(f"CREATE DATABASE {alias}")
        database["NAME"] = alias
    elif request.param == "mysql":
        shared(mysql).ask(f"CREATE DATABASE {alias}")
        database |= {"NAME": alias, "USER": ADMIN}
    django_site.ready(**{alias: database})
    with connections[alias].schema_editor() as editor:
        editor.create_model(Shelf)
    yield alias
    connections[alias].close()
    del connections[alias]
