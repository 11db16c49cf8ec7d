"""A server that freezes or is cut off: callers go home in time, what they are told is true, and
nothing stays behind that nobody waits for, though the client lives on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencelock import AcquireTimeout, OutcomeUnknown, Unavailable, aio
from fencelock.model import Grant, Request
from fencelock.world import GRACE_S
from fencelock.worlds import clock
from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.consul import Consul
from tests.servers.etcd import Etcd
from tests.servers.firestore import Firestore
from tests.servers.proxy import Proxy
from tests.servers.server import Server
from tests.servers.spanner import Spanner
from tests.servers.zookeeper import ZooKeeper

SERVERS: dict[str, type[Etcd | ZooKeeper]] = {"etcd": Etcd, "zookeeper": ZooKeeper}
WITHOUT_QUEUE: dict[str, type[Consul | Firestore | Spanner]] = {
    "consul": Consul,
    "firestore": Firestore,
    "spanner": Spanner,
}
TTL_S = 60.0  # longer than any wait here: what is free again was given back, not outlived
TIMEOUT_S = 0.5
SLACK_S = 3.5  # for a machine under load; without a limit it is 5 s and more


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Etcd | ZooKeeper]:
    """One of one's own, to be frozen."""
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture(params=[*SERVERS, *WITHOUT_QUEUE])
def any_server(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    """One of one's own, to be frozen, and the URL of its locks."""
    if request.param in SERVERS:
        with SERVERS[request.param]() as queued:
            yield queued, queued.url
    else:
        with WITHOUT_QUEUE[request.param]() as server:
            yield server, server.fresh_url()


async def refused(client: aio.Client, server: Server, timeout: float) -> tuple[Exception, float]:
    """What an acquire of a frozen server is told, and after how long."""
    began = clock.now()
    server.pause()
    try:
        await client.lock("seat", ttl=TTL_S).acquire(timeout=timeout)
    except (AcquireTimeout, OutcomeUnknown, Unavailable) as error:
        return error, clock.now() - began
    finally:
        server.resume()
    raise AssertionError("it was acquired")


@pytest.mark.parametrize("timeout", [0.0, TIMEOUT_S])
@pytest.mark.parametrize("used", ["before", "never"])
def test_a_frozen_server_keeps_nobody_past_its_deadline(
    flavor: str, any_server: tuple[Server, str], timeout: float, used: str
) -> None:
    server, url = any_server

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        if used == "before":
            async with client.lock("another", ttl=TTL_S):
                pass
        error, took = await refused(client, server, timeout)
        assert took < timeout + GRACE_S + SLACK_S
        if isinstance(error, Unavailable):  # nothing has happened
            assert not await other.holders("seat")
        lease = await other.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
        assert await lease.release()
        async with client.lock("seat", ttl=TTL_S, timeout=SOON):
            pass  # it is of use again

    run(flavor, scenario)


def test_a_waiter_that_gave_up_a_frozen_server_leaves_the_queue(
    flavor: str, server: Etcd | ZooKeeper
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        held = await other.lock("seat", ttl=TTL_S).acquire()
        waiter = lab.start(client.lock("seat", ttl=TTL_S).acquire(timeout=2))
        await lab.until_queued(other, "seat", 1)
        server.pause()
        try:
            with pytest.raises((AcquireTimeout, OutcomeUnknown)):
                await waiter.result()
        finally:
            server.resume()
        assert await held.release()
        lease = await other.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
        await lab.until_queued(other, "seat", 0)
        assert await lease.release()

    run(flavor, scenario)


def test_a_short_cut_is_no_matter_for_one_who_has_waited_for_long(
    flavor: str, server: Etcd | ZooKeeper
) -> None:
    """Longer than its ttl, so that nobody has asked the server for that long."""

    async def scenario(lab: Lab) -> None:
        with Proxy(server.port) as proxy:
            client = await lab.connect(server.url.replace(server.address, proxy.address))
            other = await lab.connect(server.url)
            held = await other.lock("seat", ttl=TTL_S).acquire()
            waiter = lab.start(client.lock("seat", ttl=1.0).acquire(timeout=2 * SOON))
            await lab.until_queued(other, "seat", 1)
            await lab.let_pass(2.0)
            for _ in range(2):
                proxy.cut()
                await lab.let_pass(0.3)
                proxy.heal()
            assert not waiter.done()
            await lab.until_queued(other, "seat", 1)
            assert await held.release()
            lease = await waiter.result()
            assert await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("queue", [False, True])
def test_an_attempt_that_nobody_asks_about_again_ends(
    flavor: str, server: Etcd | ZooKeeper, queue: bool
) -> None:
    """As when a signal handler raises in those who would have taken it back."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        held = await other.lock("seat", ttl=TTL_S).acquire()
        async with client.lock("another", ttl=TTL_S):
            engine = client._core.engine  # which is open now
        request = Request("seat", "1" * 32, 1.0, queue=queue, waits=True)
        assert not isinstance(await engine.acquire(request), Grant)
        assert await held.release()
        lease = await other.lock("seat", ttl=TTL_S).acquire(timeout=2 * SOON)
        assert await lease.release()

    run(flavor, scenario)
