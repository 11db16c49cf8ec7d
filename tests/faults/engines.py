"""The engines that the client hazards run over: one line each.

A row says where a fresh store for one test is to be had. It must be nobody else's: tests list all
locks of a store. Tests ask for one of these fixtures:

``url``         every engine: a hazard of one process
``shared_url``  every engine that several processes can meet in
``server_url``  every engine with a server, whose address can lead through a proxy
``client_url``  memory and sqlite: the hazard and its cure lie in the client alone, above any engine
``file_url``    sqlite: about its file

``@pytest.mark.needs("order")`` leaves engines out that do not promise that much. One row per kind
of server is enough here: that variants keep the same promises is for the conformance checks to say.
A row costs about a minute, most of it leases that run out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fencelock.engines import TABLE
from tests.servers.consul import Consul
from tests.servers.dynalite import Dynalite
from tests.servers.etcd import brisk_etcd
from tests.servers.firestore import Firestore
from tests.servers.hazelcast import brief_sessions
from tests.servers.mariadb import mariadb
from tests.servers.mysql import mysql
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.service import Service
from tests.servers.shared import shared
from tests.servers.spanner import Spanner
from tests.servers.zookeeper import ZooKeeper

PROMISES = frozenset(
    {
        "processes",
        "server",
        "order",
        "waiters",
        "revoke",
        "scan",
        "fork_in_loop",
        "fork_in_use",
        "long",
        "place",
        "loop_end",
        "one_step",
    }
)
"""What a test may need: several processes, a server of its own to be cut off from, first come first
served, waiters that can be seen, taking locks from others, listing them, a child that was forked
inside a running event loop and connects, one that was forked while other threads were in calls,
leases that differ much in length, a place in the queue that outlives lost answers, a release that
outlives its event loop, a grant by the first request of an acquire."""

_number = itertools.count()

STORMS = (
    "single exceptions are in tests/engines; several at once may still cost it a turn on a "
    "connection, until a deadline"
)


class Store(NamedTuple):
    """Where an engine keeps its locks in one test."""

    fresh: Callable[[Path], str]
    """The URL of an empty store; the folder is the test's own."""
    lacks: Mapping[str, str] = {}
    """What it does not promise, of PROMISES, and why."""
    dead_waiter_ttl: float = 600.0
    """The ttl of waiters that die in a test: short where a dead one may keep the lock for that long
    when its turn comes, and long where it is passed over at once."""
    dead_waiter_wait: float = 0.0
    """How long a dead waiter may keep others out: not at all where it is passed over at once."""
    left_out: frozenset[str] = frozenset()
    """Files of tests that would show nothing here that another row does not."""
    why_left_out: str = ""


def _postgresql() -> Postgresql:
    return Postgresql()


def _redis() -> Redis:
    return Redis()


def _service() -> Service:
    return Service()


STORES: dict[str, Store] = {
    "memory": Store(
        lambda folder: f"memory://faults-{next(_number)}",
        lacks={"processes": "lives in one process", "server": "is no server"},
    ),
    "sqlite": Store(
        lambda folder: f"sqlite:///{folder}/locks.db", lacks={"server": "is reached by no network"}
    ),
    "postgresql": Store(
        lambda folder: shared(_postgresql).url(f"table=faults_{next(_number)}"),
        dead_waiter_ttl=2.0,  # it is handed the lock whole, as with redis below
    ),
    "mariadb": Store(
        lambda folder: f"{shared(mariadb).url('mariadb')}?table=faults_{next(_number)}",
        dead_waiter_wait=5.0,  # it has half a second to claim the lock
    ),
    # It offers TLS, and PyMySQL takes what is offered: the proxy must see what it passes on.
    "mysql": Store(
        lambda folder: f"{shared(mysql).url()}?tls=no&table=faults_{next(_number)}",
        dead_waiter_wait=5.0,
        left_out=frozenset({"test_clocks.py", "test_exits.py", "test_forks.py"}),
        why_left_out="happens to the client, which is the same as over MariaDB",
    ),
    # A waiter is handed the lock whole: if it dies at that moment, the lock is its for a ttl.
    "redis": Store(lambda folder: shared(_redis).fresh_url(), dead_waiter_ttl=2.0),
    "redlock": Store(
        lambda folder: f"{shared(Nodes).url}?prefix=faults-{next(_number)}:",
        lacks={
            "server": "is several servers, cut off one by one in tests/engines/redlock",
            "order": "serves waiters in no order",
            "waiters": "keeps no queue",
        },
    ),
    "consul": Store(
        lambda folder: shared(Consul).fresh_url(),
        lacks={"order": "serves waiters in no order", "waiters": "keeps no queue"},
    ),
    "dynamodb": Store(
        lambda folder: f"{shared(Dynalite).locks_url}-{next(_number)}",
        lacks={"order": "serves waiters in no order", "waiters": "keeps no queue"},
    ),
    "spanner": Store(
        lambda folder: shared(Spanner).fresh_url(),
        lacks={
            "order": "serves waiters in no order",
            "waiters": "keeps no queue",
            "fork_in_use": "rests on gRPC, which does not survive a fork in the midst of a call",
            "one_step": "reads before it commits, and is shown in tests/engines/spanner",
        },
    ),
    "etcd": Store(
        lambda folder: f"{shared(brisk_etcd).url}?prefix=faults-{next(_number)}/",
        dead_waiter_ttl=2.0,
        dead_waiter_wait=10.0,
    ),
    "firestore": Store(
        lambda folder: shared(Firestore).fresh_url(),
        lacks={
            "order": "serves waiters in no order",
            "waiters": "keeps no queue",
            "fork_in_use": "rests on gRPC, which does not survive a fork in the midst of a call",
        },
    ),
    # A dead client keeps its place and its locks until its session ends: hence a short one.
    "hazelcast": Store(
        lambda folder: shared(brief_sessions).fresh_url(),
        lacks={
            "server": "is three members, of which the client chooses; tests/engines/hazelcast",
            "order": "shows no order",
            "waiters": "shows no queue",
            "revoke": "takes no lock from its holder",
            "scan": "lists no locks",
            "long": "keeps all locks of a client for as long as its session",
        },
        dead_waiter_ttl=1.5,
        dead_waiter_wait=20.0,
    ),
    # A dead waiter is known by its poll, which ends with its connection.
    "http": Store(
        lambda folder: f"{shared(_service).url}?prefix=faults-{next(_number)}:",
        dead_waiter_ttl=2.0,
        dead_waiter_wait=12.0,  # a place without a poll is kept so long
    ),
    # A dead client keeps its place and its locks until its session ends: hence a short one.
    "zookeeper": Store(
        lambda folder: f"{shared(ZooKeeper).fresh_url()}?session=4",
        lacks={
            "server": "is cut off in tests/engines/zookeeper",
            "long": "keeps all locks of a client for as long as its session",
        },
        dead_waiter_ttl=1.5,
        dead_waiter_wait=10.0,
    ),
}

FIXTURES: dict[str, set[str]] = {
    "url": set(),
    "shared_url": {"processes"},
    "server_url": {"server"},
}
"""The fixtures that run over several engines, with what each needs."""


def suitable(needs: Iterable[str], file: str = "") -> list[str]:
    """The engines that promise all of this, and have a part in this file of tests."""
    wanted = {*needs}
    assert wanted <= PROMISES, f"not something an engine could promise: {wanted - PROMISES}"
    return [
        name
        for name, store in STORES.items()
        if name in TABLE and not wanted & {*store.lacks} and file not in store.left_out
    ]


def fresh(name: str, folder: Path) -> str:
    """An empty store of an engine, for one test."""
    return STORES[name].fresh(folder)


def store_of(url: str) -> Store:
    """The row that a URL came from."""
    return STORES[url.partition(":")[0]]
