"""Names that mean something to the server: braces, wildcards, our own prefixes."""

from __future__ import annotations

import pytest

from tests.faults.flavors import SOON, Lab, run
from tests.servers.cluster import Cluster
from tests.servers.redis import Redis
from tests.servers.shared import shared

NAMES = [
    "a", "a}{b", "{}", "{}x", "x{}", "{", "}", "}{", "{{}}", "{a}", "{a}b", "{a}{b}", "a{b", "a}b",
    "*", "?", "[a-z]", "a*", "a*b", "axb", "\\", "\\*", "%7B", "%", " ", "a b", "é", "🔒",
    "seat:fencelock", "{seat}:fencelock", "seat:fencelock:queue", "fencelock%", "fencelock%7B",
]  # fmt: skip


def cluster() -> Cluster:
    return Cluster()


def single() -> Redis:
    return Redis()


@pytest.fixture(params=["redis", "redis+cluster"])
def place(request: pytest.FixtureRequest) -> str:
    """A server, and a cluster in which all keys of a lock must lie in one slot."""
    return shared(single).fresh_url() if request.param == "redis" else shared(cluster).url


def test_every_name_is_a_lock_of_its_own(flavor: str, place: str) -> None:
    """H42: all are held at once, each keeps others out, and each is listed as it is."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(place), await lab.connect(place)
        leases = [await client.lock(name, ttl=60).acquire(timeout=0) for name in NAMES]
        for name, lease in zip(NAMES, leases, strict=True):
            assert await other.lock(name).try_acquire() is None, name
            (holding,) = await other.holders(name)
            assert (holding.name, holding.fence) == (name, lease.fence)
        assert {holding.name for holding in await other.scan()} == {*NAMES}
        for name, lease in zip(NAMES, leases, strict=True):
            assert await lease.release() is True, name
        assert await other.scan() == []

    run(flavor, scenario)


@pytest.mark.parametrize("name", ["a}{b", "{}", "*", "{a}b", "fencelock%7B"])
def test_a_lock_of_any_name_is_handed_over(flavor: str, place: str, name: str) -> None:
    """H42: the queue, the fence and the push of one name find each other."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(place), await lab.connect(place)
        lease = await client.lock(name, ttl=60).acquire(timeout=0)
        waiting = lab.start(other.lock(name, ttl=60).acquire(timeout=30))
        await lab.until_queued(client, name, 1)
        assert await lease.release() is True
        taken = await waiting.result(SOON)
        assert taken.fence > lease.fence
        assert await taken.release() is True

    run(flavor, scenario)


def test_names_that_share_a_slot_share_nothing_else(flavor: str, place: str) -> None:
    """H42: ``a`` and ``{a}`` have one hash tag, and two queues."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(place), await lab.connect(place)
        plain = await client.lock("a", ttl=60).acquire(timeout=0)
        tagged = await client.lock("{a}", ttl=60).acquire(timeout=0)
        waiting = lab.start(other.lock("a", ttl=60).acquire(timeout=30))
        await lab.until_queued(client, "a", 1)
        assert (await client.inspect("{a}")).waiters == ()
        assert await tagged.release() is True
        assert not waiting.done()
        assert await plain.release() is True
        taken = await waiting.result(SOON)
        assert taken.fence > plain.fence
        await taken.release()

    run(flavor, scenario)


@pytest.mark.parametrize("prefix", ["a", "a*", "*", "[", "\\", "{", "{a}", "?"])
def test_a_prefix_is_taken_literally(flavor: str, place: str, prefix: str) -> None:
    """H42: listing what begins with a star lists that, and not everything."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(place)
        leases = [await client.lock(name, ttl=60).acquire(timeout=0) for name in NAMES]
        found = {holding.name for holding in await client.scan(prefix)}
        assert found == {name for name in NAMES if name.startswith(prefix)}
        for lease in leases:
            await lease.release()

    run(flavor, scenario)
