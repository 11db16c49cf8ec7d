"""A silent server: no call outlasts its caller's deadline, and what it says is true."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import fencelock
from fencelock import OutcomeUnknown, Unavailable
from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.cluster import Cluster
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes

TIMEOUT = 60.0  # a wait for the server that its caller's deadline did not end would take so long
LATE = 20.0  # far more than a deadline and its second of grace, on the slowest machine


class Stopwatch:
    """Sees that a block has ended long before the server's own limit would have ended it."""

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        assert time.monotonic() - self._began < LATE, "it waited for the server, not for its caller"


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["redis", "redis+cluster", "redlock"])
def servers(request: pytest.FixtureRequest) -> Iterator[Redis | Cluster | Nodes]:
    make = {"redis": Redis, "redis+cluster": Cluster, "redlock": Nodes}[request.param]
    with make() as servers:
        yield servers


def pause(servers: Redis | Cluster | Nodes) -> None:
    for server in [servers] if isinstance(servers, Redis) else servers.nodes:
        server.pause()


def slow(servers: Redis | Cluster | Nodes) -> str:
    """The URL of servers whose answers are waited for that long."""
    option = "node_timeout" if isinstance(servers, Nodes) else "request_timeout"
    return f"{servers.url}?{option}={TIMEOUT}"


def resume(servers: Redis | Cluster | Nodes) -> None:
    for server in [servers] if isinstance(servers, Redis) else servers.nodes:
        server.resume()


def test_a_try_ends_by_its_deadline(flavor: str, servers: Redis | Cluster | Nodes) -> None:
    """H81: And the lock is not kept from others by what it has sent."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(slow(servers))
        async with client.lock("warm"):
            pass
        pause(servers)
        try:
            for _ in range(3):  # the first finds a connection, the next have to make one
                with Stopwatch(), pytest.raises((OutcomeUnknown, Unavailable)):
                    await client.lock("seat", ttl=60).try_acquire()
        finally:
            resume(servers)
        fresh = await lab.connect(servers.url)
        await (await fresh.lock("seat", ttl=60).acquire(timeout=LATE)).release()

    run(flavor, scenario)


def test_a_release_and_a_wait_end_by_their_deadlines(
    flavor: str, servers: Redis | Cluster | Nodes
) -> None:
    """H81."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(slow(servers))
        holder = await lab.connect(servers.url)
        held = await holder.lock("seat", ttl=60).acquire()
        # A release without a deadline of its caller ends by the wire's own in asyncio.
        releasing = client if flavor == "sync" else holder
        mine = await releasing.lock("mine", ttl=60).acquire()
        waiter = lab.start(client.lock("seat", ttl=60).acquire(timeout=1))
        if not isinstance(servers, Nodes):
            await lab.until_queued(holder, "seat", 1)
        pause(servers)
        try:
            with Stopwatch(), pytest.raises((OutcomeUnknown, fencelock.AcquireTimeout)):
                await waiter.result(LATE)
            with Stopwatch(), pytest.raises(OutcomeUnknown):
                await mine.release()
        finally:
            resume(servers)
        await held.release()
        for name in ("seat", "mine"):
            await (await holder.lock(name, ttl=60).acquire(timeout=LATE)).release()

    run(flavor, scenario)


def test_who_gives_up_in_the_queue_for_the_connection_breaks_nothing_for_others() -> None:
    """A thread without a deadline has sent its request; one with a deadline comes meanwhile."""
    with Redis() as server, fencelock.connect(server.url, request_timeout=TIMEOUT) as client:
        with client.lock("warm"):
            pass
        got: list[fencelock.Lease] = []
        patient = threading.Thread(target=lambda: got.append(client.lock("a", ttl=90).acquire()))
        server.pause()
        try:
            patient.start()
            connection = client._core.engine._fast._connection  # type: ignore[attr-defined]
            while not connection.turn.locked():
                time.sleep(0.001)
            with Stopwatch(), pytest.raises(Unavailable, match=r"was not asked.*Nothing happened"):
                client.lock("b", ttl=90).try_acquire()
        finally:
            server.resume()
        patient.join(SOON)
        assert connection.usable, "its connection was closed"
        assert client.holders("b") == []
        assert got[0].release() is True
