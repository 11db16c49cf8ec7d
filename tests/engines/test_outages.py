"""A server that freezes or is cut off: callers go home in time, what they are told is true, and
nothing stays behind that nobody waits for, though the client lives on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest

from fencelock import AcquireTimeout, OutcomeUnknown, Unavailable, aio
from fencelock.model import Grant, Request
from fencelock.world import GRACE_S
from fencelock.worlds import clock
from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.consul import Consul
from tests.servers.etcd import Etcd
from tests.servers.hazelcast import Hazelcast
from tests.servers.proxy import Proxy
from tests.servers.server import Server
from tests.servers.zookeeper import ZooKeeper

Queueing: TypeAlias = Etcd | ZooKeeper
Frozen: TypeAlias = Queueing | Consul | Hazelcast
QUEUEING: dict[str, type[Queueing]] = {"etcd": Etcd, "zookeeper": ZooKeeper}
SERVERS: dict[str, type[Queueing | Consul]] = {**QUEUEING, "consul": Consul}
TTL_S = 60.0  # longer than any wait here: what is free again was given back, not outlived
TIMEOUT_S = 0.5
SLACK_S = 3.5  # for a machine under load; without a limit it is 5 s and more


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def members() -> Iterator[Hazelcast]:
    """For all tests here: they take long to start."""
    with Hazelcast() as members:
        yield members


@pytest.fixture(params=[*SERVERS, "hazelcast"])
def server(request: pytest.FixtureRequest) -> Iterator[Frozen]:
    """One of one's own, to be frozen."""
    if request.param == "hazelcast":
        yield request.getfixturevalue("members")
        return
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture(params=QUEUEING)
def queueing(request: pytest.FixtureRequest) -> Iterator[Queueing]:
    """The same of those whose queue can be seen."""
    with QUEUEING[request.param]() as server:
        yield server


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
    flavor: str, server: Frozen, timeout: float, used: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
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
    flavor: str, queueing: Queueing
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(queueing.url), await lab.connect(queueing.url)
        held = await other.lock("seat", ttl=TTL_S).acquire()
        waiter = lab.start(client.lock("seat", ttl=TTL_S).acquire(timeout=2))
        await lab.until_queued(other, "seat", 1)
        queueing.pause()
        try:
            with pytest.raises((AcquireTimeout, OutcomeUnknown)):
                await waiter.result()
        finally:
            queueing.resume()
        assert await held.release()
        lease = await other.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
        await lab.until_queued(other, "seat", 0)
        assert await lease.release()

    run(flavor, scenario)


def test_a_short_cut_is_no_matter_for_one_who_has_waited_for_long(
    flavor: str, queueing: Queueing
) -> None:
    """Longer than its ttl, so that nobody has asked the server for that long."""

    async def scenario(lab: Lab) -> None:
        with Proxy(queueing.port) as proxy:
            client = await lab.connect(queueing.url.replace(queueing.address, proxy.address))
            other = await lab.connect(queueing.url)
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
    flavor: str, server: Frozen, queue: bool
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
