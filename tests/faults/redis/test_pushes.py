"""The connection by which waiters are called, while it breaks."""

from __future__ import annotations

from tests.faults.flavors import Lab, run
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis


def inboxes(server: Redis) -> int:
    """How many clients can be called at this moment."""
    return len(server.cli("PUBSUB", "CHANNELS", "fencelock:inbox:*"))


def test_a_waiter_keeps_its_place_when_its_link_breaks(flavor: str, server: Redis) -> None:
    """H22: it comes back by itself, and is still before those who came later."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(server.url)
        holder = await other.lock("seat", ttl=60).acquire()
        first = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 1)
        second = lab.start(other.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 2)
        await lab.until(lambda: inboxes(server) == 2, "both to listen")
        proxy.reset()
        await lab.until(lambda: inboxes(server) == 1, "the server to notice")
        await lab.until(lambda: inboxes(server) == 2, "the first to listen again")
        assert await holder.release() is True
        lease = await first.result()
        assert not second.done()
        assert await lease.release() is True
        await (await second.result()).release()

    with Proxy(server.port) as proxy:
        url = f"redis://{proxy.address}/0"
        run(flavor, scenario)


def test_a_waiter_that_cannot_be_called_is_passed_over_at_once(flavor: str, server: Redis) -> None:
    """H22: its link is down when its turn comes. The next is served, and it is not forgotten."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(server.url)
        holder = await other.lock("seat", ttl=60).acquire()
        first = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 1)
        second = lab.start(other.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 2)
        proxy.cut()
        await lab.until(lambda: inboxes(server) == 1, "the server to notice")
        assert await holder.release() is True
        lease = await second.result()
        proxy.heal()
        assert await lease.release() is True
        again = await first.result()
        assert again.fence > lease.fence
        await again.release()

    with Proxy(server.port) as proxy:
        url = f"redis://{proxy.address}/0"
        run(flavor, scenario)
