"""An inbox whose connection leads nowhere, while all others work, is noticed and opened anew."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencelock import aio
from fencelock.engine import Address
from fencelock.engines.redis import inbox_probe, listener
from fencelock.engines.redis.settings import settings
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.shared import shared

Subscribe = Callable[[Any, str], Awaitable[Any]]


def single() -> Redis:
    return Redis()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def beat_every(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have waiters show that they are alive, and inboxes be pinged, so often."""
    monkeypatch.setattr(listener, "HEARTBEAT_S", seconds)
    monkeypatch.setattr(inbox_probe, "HEARTBEAT_S", seconds)


def pool_of(client: aio.Client) -> Any:
    engine: Any = client._core.engine
    return engine._runner.pool


def pass_first_inbox_through(proxy: Proxy, client: aio.Client) -> list[Any]:
    """Have the first subscription of a client go through a proxy; return all that it makes."""
    pool = pool_of(client)
    subscribe: Subscribe = pool.subscribe
    made: list[Any] = []

    async def through(node: tuple[str, int], channel: str) -> Any:
        made.append(await subscribe(node if made else ("127.0.0.1", proxy.port), channel))
        return made[-1]

    pool.subscribe = through
    return made


def test_a_waiter_gets_its_turn_though_its_inbox_leads_nowhere(
    flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push is lost, and the lock stays free: nothing else would wake the waiter."""
    beat_every(monkeypatch, 0.5)
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            holder, waiter = [await lab.connect(f"redis://127.0.0.1:{server.port}/0") for _ in "ab"]
            inboxes = pass_first_inbox_through(proxy, waiter)
            lease = await holder.lock("lost", ttl=600).acquire()
            job = lab.start(waiter.lock("lost", ttl=600, timeout=60).acquire())
            await lab.until_queued(holder, "lost", 1)
            await lab.until(lambda: inboxes, "the inbox")
            proxy.block()
            assert await lease.release() is True
            assert await (await job.result(within=40)).release() is True
            assert inboxes[0].broken

        run(flavor, scenario)


def test_a_wait_pings_an_inbox_that_was_idle(flavor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inbox of an earlier wait has died meanwhile, and the next heartbeat is far away."""
    beat_every(monkeypatch, 600.0)
    monkeypatch.setattr(listener, "HEARTBEAT_MS", 600_000.0)
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            holder, waiter = [await lab.connect(f"redis://127.0.0.1:{server.port}/0") for _ in "ab"]
            inboxes = pass_first_inbox_through(proxy, waiter)
            for _ in range(2):
                lease = await holder.lock("idle", ttl=600).acquire()
                job = lab.start(waiter.lock("idle", ttl=600, timeout=60).acquire())
                await lab.until_queued(holder, "idle", 1)
                await lab.until(lambda: inboxes, "the inbox")
                assert await lease.release() is True
                assert await (await job.result(within=40)).release() is True
                proxy.block()
            assert inboxes[0].broken

        run(flavor, scenario)


def test_an_inbox_that_answers_stays_open(flavor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beat_every(monkeypatch, 0.02)
    monkeypatch.setattr(inbox_probe, "PONG_S", 60.0)
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            url = f"redis://127.0.0.1:{server.port}/0"
            holder, waiter = [await lab.connect(url, request_timeout=60) for _ in "ab"]
            inboxes = pass_first_inbox_through(proxy, waiter)
            lease = await holder.lock("alive", ttl=600).acquire()
            job = lab.start(waiter.lock("alive", ttl=600, timeout=60).acquire())
            await lab.until(lambda: inboxes, "the inbox")
            proxy.count_from_now()
            await lab.until(lambda: proxy.requests >= 5, "pings")
            await lab.until(lambda: not inboxes[0].unanswered, "their replies")
            assert await lease.release() is True
            assert await (await job.result()).release() is True
            assert len(inboxes) == 1

        run(flavor, scenario)


def test_the_kernel_notices_a_server_that_has_vanished(flavor: str) -> None:
    server = shared(single)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(f"redis://127.0.0.1:{server.port}/0")
        await (await client.lock("seat").acquire()).release()
        (connection,) = pool_of(client)._connections.values()
        if flavor == "sync":
            found = connection.socket
        else:
            found = connection._transport.get_extra_info("socket")
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5

    run(flavor, scenario)


def test_connections_to_sentinels_have_keepalive_too() -> None:
    address = Address("redis+sentinel", (("a", 1), ("b", 2)), path="/main")
    found = settings(address)
    assert found.sentinel["socket_keepalive"] is found.connection["socket_keepalive"] is True
