"""Every way to run an engine of ours, each with a store, or a part of one, of its own per check.

A server is shared by all checks of a test process, and started when the first of them asks for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers.cluster import Cluster
from tests.servers.consul import Consul
from tests.servers.dynalite import Dynalite
from tests.servers.dynamodb_local import DynamoDBLocal
from tests.servers.etcd import brisk_etcd, brisk_etcd_35
from tests.servers.firestore import Firestore
from tests.servers.hazelcast import Hazelcast
from tests.servers.mariadb import SqlServer, mariadb
from tests.servers.mysql import mysql
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.postgresql import Postgresql, Postgresql18
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.sentinel import Sentinels
from tests.servers.service import Service, Services
from tests.servers.shared import shared
from tests.servers.spanner import Spanner
from tests.servers.valkey import Valkey
from tests.servers.zookeeper import ZooKeeper

Where = Callable[[Path], tuple[str, dict[str, Any]]]

_number = itertools.count()


def sql(server: Callable[[], SqlServer], scheme: str, mode: str) -> Where:
    """One set of tables for all checks: each uses names of its own."""
    return lambda folder: (shared(server).url(scheme), {"mode": mode})


def postgresql(**options: Any) -> Where:
    """One set of tables for all checks: each uses names of its own."""
    return lambda folder: (shared(Postgresql).url(), options)


def postgresql_18(**options: Any) -> Where:
    """The same, on a newer server."""
    return lambda folder: (shared(Postgresql18).url(), options)


def redis() -> Redis:
    return Redis(persistence="everysec", tls=True)


def valkey() -> Valkey:
    return Valkey(persistence="everysec")


SESSION_S = 600.0


def sentinels() -> Sentinels:
    """A server that a sentinel names. What becomes of it if that fails: tests/faults/redis."""
    return Sentinels(replicas=0, sentinels=1, persistence="everysec")


def service() -> Service:
    return Service()


def service_memory() -> Service:
    return Service("memory://")


def service_tls() -> Service:
    return Service(tls=True)


def service_redis() -> Service:
    return Service(shared(redis).url)


def service_postgresql() -> Service:
    return Service(shared(Postgresql).url())


def service_etcd() -> Service:
    return Service(shared(brisk_etcd).url)


def service_zookeeper() -> Service:
    return Service(f"{shared(ZooKeeper).fresh_url()}?session={SESSION_S:g}")


def replicas() -> Services:
    return Services()


def prefixed(url: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """A part of a store of its own for each check."""
    return url, {"prefix": f"check-{next(_number)}:", **options}


PATIENT = {"connect_timeout": 15, "request_timeout": 15}  # for one that stalls beside other work

# Each way to run an engine of ours, with a store of its own for each check. A variant is named
# after its scheme and what is special about it.
VARIANTS: dict[str, Where] = {
    "memory": lambda folder: (f"memory://conformance-{next(_number)}", {}),
    "sqlite": lambda folder: (f"sqlite:///{folder}/locks.db", {}),
    "consul": lambda folder: (shared(Consul).fresh_url(), {}),
    "dynamodb": lambda folder: prefixed(shared(Dynalite).locks_url, **PATIENT),
    "spanner": lambda folder: (shared(Spanner).fresh_url(), {}),
    "etcd": lambda folder: (
        shared(brisk_etcd).url,
        {"prefix": f"conformance-{next(_number)}/"},
    ),
    "firestore": lambda folder: (shared(Firestore).fresh_url(), {}),
    "hazelcast": lambda folder: (shared(Hazelcast).fresh_url(), {}),
    # All checks of a process share the nodes of a service: each uses names of its own.
    "http": lambda folder: (shared(service).url, {}),
    "http memory": lambda folder: (shared(service_memory).url, {}),
    "http redis": lambda folder: (shared(service_redis).url, {}),
    "http postgresql": lambda folder: (shared(service_postgresql).url, {}),
    "http etcd": lambda folder: (shared(service_etcd).url, {}),
    "http zookeeper": lambda folder: (shared(service_zookeeper).url, {}),
    "http replicas": lambda folder: (shared(replicas).url, {}),
    "https": lambda folder: (
        shared(service_tls).url,
        {"ca": str(shared(service_tls).certificate)},
    ),
    "mariadb": sql(mariadb, "mariadb", "lease"),
    "mariadb mode=advisory": sql(mariadb, "mariadb", "advisory"),
    "mysql": sql(mysql, "mysql", "lease"),
    "mysql mode=advisory": sql(mysql, "mysql", "advisory"),
    "postgresql": postgresql(),
    "postgresql push=no": postgresql(push=False),
    "postgresql pgbouncer": lambda folder: (shared(Pgbouncer).url(), {}),
    "postgresql mode=advisory": postgresql(mode="advisory"),
    "postgresql mode=advisory bound=transaction": postgresql(mode="advisory", bound="transaction"),
    "postgresql mode=row": postgresql(mode="row"),
    "redis": lambda folder: prefixed(shared(redis).url),
    "rediss": lambda folder: prefixed(
        shared(redis).tls_url, ca=str(shared(redis).certificate), verify=False
    ),
    "valkey": lambda folder: prefixed(shared(valkey).url),
    "redis+sentinel": lambda folder: prefixed(shared(sentinels).url),
    "redis+cluster": lambda folder: prefixed(shared(Cluster).url),
    "redlock": lambda folder: prefixed(shared(Nodes).url),
    # A session carries all leases of a client, so none lasts longer: the checks ask for minutes.
    "zookeeper": lambda folder: (shared(ZooKeeper).fresh_url(), {"session": SESSION_S}),
    "sqlite push=no": lambda folder: (f"sqlite:///{folder}/locks.db", {"push": False}),
}

# Other servers of an engine above, and the variant whose promises they have to keep. Some of the
# checks are enough for them: see test_versions.py. Valkey is a variant of its own.
VERSIONS: dict[str, tuple[str, Where]] = {
    "etcd 3.5": (
        "etcd",
        lambda folder: (shared(brisk_etcd_35).url, {"prefix": f"conformance-{next(_number)}/"}),
    ),
    "postgresql 18": ("postgresql", postgresql_18()),
    "postgresql 18 mode=advisory": ("postgresql mode=advisory", postgresql_18(mode="advisory")),
    "postgresql 18 mode=row": ("postgresql mode=row", postgresql_18(mode="row")),
    "dynamodb local": (
        "dynamodb",
        lambda folder: prefixed(shared(DynamoDBLocal).locks_url, **PATIENT),
    ),
}

RECIPES = {"shared", "remembers", "observe"}

# What an engine does not promise, so that its checks are skipped. Nothing else may be.
NOT_PROMISED = {
    "memory": {"durable", "portable"},
    "consul": {"fifo", *RECIPES},
    "dynamodb": {"fifo", "push", "shared", "observe"},
    "spanner": {"fifo", "push", "shared", "observe"},
    "firestore": {"fifo", "shared", "observe"},
    "hazelcast": {"durable", "portable", "fifo", "revoke", "scan", *RECIPES},
    "http": {"store"},
    "http memory": {"durable", "portable", "store"},
    "http redis": {"store"},
    "http postgresql": {"store"},
    "http replicas": {"store"},
    "https": {"store"},
    "sqlite push=no": {"observe"},
    "etcd": {"claims"},
    "http etcd": {"claims", "store"},
    "http zookeeper": {"claims", "store"},
    "mariadb mode=advisory": {"durable", "portable", "fifo", "revoke", "scan", *RECIPES},
    "mysql mode=advisory": {"durable", "portable", "fifo", "revoke", "scan", *RECIPES},
    "postgresql": set(),
    "postgresql push=no": {"push", "observe"},
    "postgresql pgbouncer": {"push", "observe"},
    "postgresql mode=advisory": {"durable", "portable", "fifo", "revoke", *RECIPES},
    "postgresql mode=advisory bound=transaction": {
        "durable",
        "portable",
        "fifo",
        "revoke",
        *RECIPES,
    },
    "postgresql mode=row": {"durable", "portable", "fifo", "revoke", *RECIPES},
    "redis+cluster": {"durable"},
    "redlock": {"durable", "fifo", "push", *RECIPES},
    "zookeeper": {"claims"},
}
