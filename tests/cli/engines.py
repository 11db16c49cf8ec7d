"""Every engine that the command line is tried with, and a way to silence each.

A server here is shared by the tests of the command line and by nobody else, because they freeze it.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers.etcd import Etcd
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import FAST, MySQL
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.service import Service
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

_number = itertools.count()


def _redis() -> Redis:
    return Redis()


def _redlock() -> Nodes:
    return Nodes()


def _postgresql() -> Postgresql:
    return Postgresql()


def _mariadb() -> MariaDB:
    return MariaDB()


def _mysql() -> MySQL:
    return MySQL(FAST)


def _etcd() -> Etcd:
    return Etcd()


def _zookeeper() -> ZooKeeper:
    return ZooKeeper()


def _service() -> Service:
    return Service()


class Place(NamedTuple):
    """A fresh store of one engine."""

    make: Callable[[], Any] | None
    url: Callable[[Any], str]
    portable: bool = True
    """Whether its leases outlive the process that acquired them."""
    waiters: bool = True
    """Whether its queue can be seen."""


def _sql(mode: str) -> Callable[[Any], str]:
    def url(server: Any) -> str:
        scheme = {"MariaDB": ["mariadb"], "MySQL": ["mysql"]}.get(type(server).__name__, [])
        address = server.url(*scheme)
        return f"{address}?mode={mode}&table=cli_{next(_number)}"

    return url


PLACES: dict[str, Place] = {
    "sqlite": Place(None, lambda folder: f"sqlite:///{folder}/locks.db"),
    "redis": Place(_redis, lambda server: server.fresh_url()),
    "redlock": Place(
        _redlock, lambda nodes: f"{nodes.url}?prefix=cli-{next(_number)}:", waiters=False
    ),
    "postgresql": Place(_postgresql, _sql("lease")),
    "postgresql-advisory": Place(_postgresql, _sql("advisory"), portable=False),
    "postgresql-row": Place(_postgresql, _sql("row"), portable=False, waiters=False),
    "mariadb": Place(_mariadb, _sql("lease")),
    "mariadb-advisory": Place(_mariadb, _sql("advisory"), portable=False, waiters=False),
    "mysql": Place(_mysql, _sql("lease")),
    "etcd": Place(_etcd, lambda server: f"{server.url}?prefix=cli-{next(_number)}/"),
    "http": Place(_service, lambda server: f"{server.url}?prefix=cli-{next(_number)}:"),
    "zookeeper": Place(_zookeeper, lambda server: server.fresh_url()),
}


def fresh(name: str, folder: Path) -> str:
    """The URL of an empty store."""
    place = PLACES[name]
    return place.url(folder if place.make is None else shared(place.make))


def lasting(name: str, folder: Path) -> str:
    """The URL of an empty store that keeps leases for ten minutes, though nobody renews them."""
    url = fresh(name, folder)
    return f"{url}?session=1000" if name == "zookeeper" else url


@contextmanager
def silence(name: str, url: str) -> Iterator[None]:
    """Nobody is answered meanwhile: the server is stopped, or the file is being written."""
    make = PLACES[name].make
    if make is None:
        with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")
            yield
            database.execute("ROLLBACK")
        database.close()
        return
    server = shared(make)
    for one in getattr(server, "servers", [server]):
        one.pause()
    try:
        yield
    finally:
        for one in getattr(server, "servers", [server]):
            one.resume()
