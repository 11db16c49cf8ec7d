"""Whoever may choose the name of a lock reaches no key that is kept for another lock."""

from __future__ import annotations

import pytest
import redis

from fencelock import AcquireTimeout, Misconfigured
from fencelock.engines.redis.keys import keys_of
from fencelock.guards.redis import RedisGuard
from fencelock.model import FENCE_MAX
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.shared import shared

NAMES = (
    "{seat}:fencelock",
    "{seat}:fencelock:queue",
    "{seat}:fencelock:waiters",
    "{seat}:fencelock:revoked",
    "fencelock:mark:{seat}",
)


def single() -> Redis:
    return Redis()


def several() -> Nodes:
    return Nodes()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["redis", "redlock"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "redis":
        return shared(single).fresh_url()
    shared(several).cli("FLUSHALL")
    return shared(several).url


@pytest.mark.parametrize("prefix", ["", "{"])
def test_holding_the_names_of_its_keys_harms_no_lock(flavor: str, url: str, prefix: str) -> None:
    """Neither its fence, nor its queue, nor the guard of its resource."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        stranger = await lab.connect(url, prefix=prefix) if prefix else client
        before = await client.lock("seat").acquire()
        await before.release()
        leases = [
            await stranger.lock(name.removeprefix(prefix), meta={"a": "9" * 18}).acquire(timeout=0)
            for name in NAMES
        ]
        lease = await client.lock("seat", ttl=60).acquire(timeout=0)
        assert before.fence < lease.fence < FENCE_MAX // 2
        waiter = lab.start(client.lock("seat", ttl=60).acquire(timeout=10))
        if url.startswith("redis:"):
            await lab.until_queued(client, "seat", 1)
            with redis.Redis.from_url(url) as store:
                guard = RedisGuard(store)
                guard.set("chair", "Ann", lease.fence, name="seat")
                assert guard.mark("seat") == lease.fence
        assert await lease.release() is True
        heir = await waiter.result()
        assert heir.fence > lease.fence
        assert {held.name for held in await client.scan("{seat}")} == {*NAMES[:4]}
        for one in (heir, *leases):
            assert await one.release() is True

    run(flavor, scenario)


def test_a_key_without_expiry_is_told_to_who_waits_for_it_and_who_looks(
    flavor: str, url: str
) -> None:
    """It is no lock, or one of a program that died with it: nothing ends it by itself."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        for node in [shared(single)] if url.startswith("redis:") else shared(several).nodes:
            with redis.Redis.from_url(url if url.startswith("redis:") else node.url) as store:
                store.set("seat", "of the user")
                store.set("chair", "of the user", ex=600)
        for name, expiry in (("seat", {"expiry": "none"}), ("chair", {})):
            (holding,) = await client.holders(name)
            assert holding.meta == {"program": "not fencelock", **expiry}
            for timeout in (0, 0.3):
                with pytest.raises(AcquireTimeout) as caught:
                    _ = await client.lock(name).acquire(timeout=timeout)
                assert "program not fencelock" in str(caught.value)
                assert ("expiry none" in str(caught.value)) == bool(expiry)

    run(flavor, scenario)


def test_a_fence_that_has_reached_its_end_is_never_given_twice(flavor: str) -> None:
    """Somebody who may write the keys has written it: the lock is refused, and not held."""
    server = shared(single)
    keys = keys_of("seat")

    async def scenario(lab: Lab) -> None:
        url = server.fresh_url()
        client = await lab.connect(url)
        with redis.Redis.from_url(url) as store:
            store.set(keys.record, f"{FENCE_MAX} somebody 1 1000 0 {{}}")
            for queue in (False, True):
                if queue:  # the long way
                    store.zadd(keys.queue, {"nobody": 1})
                with pytest.raises(Misconfigured, match="as high as fences go"):
                    await client.lock("seat").acquire(timeout=0)
                assert not store.exists(keys.lock)
                assert str(store.get(keys.record)).lstrip("b'").startswith(str(FENCE_MAX))

    run(flavor, scenario)


def test_a_fence_that_has_reached_its_end_at_a_node_is_refused(flavor: str) -> None:
    """The same over a majority."""
    nodes = shared(several)
    keys = keys_of("seat")

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        nodes.cli("FLUSHALL")
        nodes.cli("SET", keys.record, f"{FENCE_MAX} somebody 1 1000 0 {{}}")
        with pytest.raises(Misconfigured, match="as high as fences go"):
            await client.lock("seat").acquire(timeout=0)
        nodes.cli("FLUSHALL")
        lease = await client.lock("seat").acquire(timeout=0)
        assert lease.fence < FENCE_MAX // 2, "one bad record has spoiled the client"
        await lease.release()

    run(flavor, scenario)
