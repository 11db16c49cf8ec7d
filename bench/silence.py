"""How long each call lasts when the server is stopped: `python -m bench.silence [ENGINE …]`.

Every server is stopped by a signal, with its children, for each call; all options are at their
defaults. It prints the longest of a few rounds, as the table of docs/hanging.md.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import fencelock
from fencelock import FencelockError, aio
from tests.servers.consul import Consul
from tests.servers.etcd import Etcd
from tests.servers.firestore import Firestore
from tests.servers.hazelcast import Hazelcast
from tests.servers.mariadb import mariadb
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.spanner import Spanner
from tests.servers.zookeeper import ZooKeeper

ROUNDS = 2
CALLS = (
    "try_acquire()",
    "acquire(timeout=0.5)",
    "asyncio.timeout(0.5)",
    "inspect()",
    "release()",
    "close()",
)


class _Stopped:
    """One server, or several, that can be stopped and go on."""

    def __init__(self, name: str, server: Any, url: Callable[[Any], str]) -> None:
        self.name, self.server, self._url = name, server, url

    @property
    def url(self) -> str:
        return self._url(self.server)

    @contextmanager
    def still(self) -> Iterator[None]:
        servers = self.server.nodes if isinstance(self.server, Nodes) else [self.server]
        for server in servers:
            server.pause()
        try:
            yield
        finally:
            for server in servers:
                server.resume()


def _servers() -> Iterator[_Stopped]:
    yield _Stopped("redis", Redis(), lambda server: str(server.fresh_url()))
    yield _Stopped("redlock", Nodes(), lambda server: str(server.url))
    for mode in ("lease", "advisory", "row"):
        yield _Stopped(f"postgresql mode={mode}", Postgresql(), partial(_postgresql_url, mode))
    for mode in ("lease", "advisory"):
        yield _Stopped(f"mariadb mode={mode}", mariadb(), partial(_mariadb_url, mode))
    yield _Stopped("etcd", Etcd(), lambda server: str(server.url))
    yield _Stopped("consul", Consul(), lambda server: str(server.fresh_url()))
    yield _Stopped("hazelcast", Hazelcast(), lambda server: str(server.fresh_url()))
    yield _Stopped("zookeeper", ZooKeeper(), lambda server: str(server.fresh_url()))
    yield _Stopped("firestore", Firestore(), lambda server: str(server.fresh_url()))
    yield _Stopped("spanner", Spanner(), lambda server: str(server.fresh_url()))


def _postgresql_url(mode: str, server: Postgresql) -> str:
    return server.url(f"mode={mode}")


def _mariadb_url(mode: str, server: Any) -> str:
    return f"{server.url('mariadb')}?mode={mode}"


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    try:
        call()
    except (FencelockError, TimeoutError):
        pass
    return time.monotonic() - began


async def _timed_aio(call: Callable[[], Awaitable[object]]) -> float:
    began = time.monotonic()
    try:
        await call()
    except (FencelockError, TimeoutError):
        pass
    return time.monotonic() - began


def _threads(one: _Stopped) -> dict[str, float]:
    found: dict[str, float] = {}
    client = fencelock.connect(one.url)
    lock = client.lock("seat", ttl=30)
    lock.acquire().release()
    with one.still():
        found["try_acquire()"] = _timed(lock.try_acquire)
    client.lock("seat").acquire(timeout=30).release()
    with one.still():
        found["acquire(timeout=0.5)"] = _timed(lambda: lock.acquire(timeout=0.5))
    lease = client.lock("seat", ttl=30).acquire(timeout=30)
    with one.still():
        found["inspect()"] = _timed(lambda: client.inspect("seat"))
    with one.still():
        found["release()"] = _timed(lease.release)
    lease = client.lock("seat", ttl=30).acquire(timeout=30)
    with one.still():
        found["close()"] = _timed(client.close)
    return found


async def _tasks(one: _Stopped) -> dict[str, float]:
    found: dict[str, float] = {}
    client = await aio.connect(one.url)
    lock = client.lock("seat", ttl=30)
    await (await lock.acquire()).release()
    with one.still():
        found["try_acquire()"] = await _timed_aio(lock.try_acquire)
    await (await lock.acquire(timeout=30)).release()
    with one.still():
        found["acquire(timeout=0.5)"] = await _timed_aio(lambda: lock.acquire(timeout=0.5))
    await (await lock.acquire(timeout=30)).release()
    with one.still():
        found["asyncio.timeout(0.5)"] = await _timed_aio(
            lambda: asyncio.wait_for(lock.acquire(), 0.5)
        )
    lease = await lock.acquire(timeout=30)
    with one.still():
        found["inspect()"] = await _timed_aio(lambda: client.inspect("seat"))
    with one.still():
        found["release()"] = await _timed_aio(lease.release)
    lease = await lock.acquire(timeout=30)
    with one.still():
        found["close()"] = await _timed_aio(client.close)
    del lease
    return found


def main() -> None:
    print(f"| engine | {' | '.join(f'`{call}`' for call in CALLS)} |")
    print(f"|---|{'---|' * len(CALLS)}")
    wanted = sys.argv[1:]
    for one in _servers():
        if wanted and not any(word in one.name for word in wanted):
            continue
        with one.server:
            longest: dict[str, list[float]] = {call: [0.0, 0.0] for call in CALLS}
            for _ in range(ROUNDS):
                for place, found in enumerate((_threads(one), asyncio.run(_tasks(one)))):
                    for call, took in found.items():
                        longest[call][place] = max(longest[call][place], took)
        cells = [
            f"{asynchronous:.1f}" if not threads else f"{threads:.1f} / {asynchronous:.1f}"
            for threads, asynchronous in longest.values()
        ]
        print(f"| {one.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
