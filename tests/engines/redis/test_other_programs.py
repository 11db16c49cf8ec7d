"""Programs that lock the same key in the well-known way: they keep us out, and we them.

redis-py's own Lock stands for all of them: ``SET key token NX PX ttl``, released by its token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import LockNotOwnedError

from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.redis import Redis
from tests.servers.shared import shared


def single() -> Redis:
    return Redis()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url() -> str:
    return shared(single).fresh_url()


@pytest.fixture
def theirs(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as client:
        yield client


def test_a_lock_of_theirs_keeps_us_out(flavor: str, url: str, theirs: redis.Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lock = theirs.lock("seat", timeout=60)
        assert lock.acquire(blocking=False)
        assert await client.lock("seat").try_acquire() is None
        (holding,) = await client.holders("seat")
        assert holding.fence == 0, "a fence was made up for a holder that has none"
        lock.release()
        lease = await client.lock("seat").acquire(timeout=0)
        assert lease.fence > 0
        await lease.release()

    run(flavor, scenario)


def test_a_lock_of_ours_keeps_them_out(flavor: str, url: str, theirs: redis.Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        lock = theirs.lock("seat", timeout=60)
        assert not lock.acquire(blocking=False)
        assert lock.locked()
        assert not lock.owned()
        await lease.renew()
        assert not lock.acquire(blocking=False)
        assert await lease.release() is True
        assert lock.acquire(blocking=False)
        lock.release()

    run(flavor, scenario)


@pytest.mark.parametrize("timeout", [60, None], ids=["with a ttl", "without"])
def test_we_wait_for_them(
    flavor: str, url: str, theirs: redis.Redis, timeout: float | None
) -> None:
    """They tell nobody when they let go; whoever waits gets it all the same, in its order."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lock = theirs.lock("seat", timeout=timeout)
        assert lock.acquire(blocking=False)
        first = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(client, "seat", 1)
        second = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(client, "seat", 2)
        lock.release()
        lease = await first.result(SOON)
        assert not second.done()
        assert await lease.release() is True
        await (await second.result(SOON)).release()

    run(flavor, scenario)


def test_they_wait_for_us(flavor: str, url: str, theirs: redis.Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        asked = threading.Event()
        got: list[bool] = []

        def wait() -> None:
            lock = theirs.lock("seat", timeout=60, blocking_timeout=SOON, sleep=0.01)
            asked.set()
            got.append(lock.acquire())
            lock.release()

        thread = threading.Thread(target=wait)
        thread.start()
        assert asked.wait(SOON)
        assert await lease.release() is True
        thread.join(SOON)
        assert got == [True]

    run(flavor, scenario)


def test_a_lease_of_ours_that_ran_out_is_theirs_to_take(
    flavor: str, url: str, theirs: redis.Redis
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=0.3, renew=False).acquire()
        lock = theirs.lock("seat", timeout=60, sleep=0.01)
        assert lock.acquire(blocking_timeout=SOON)
        assert lease.lost.is_set()
        assert await lease.release() is False
        assert lock.owned(), "we released a lock of theirs"
        lock.release()

    run(flavor, scenario)


def test_a_lock_of_theirs_that_ran_out_is_ours_to_take(
    flavor: str, url: str, theirs: redis.Redis
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lock = theirs.lock("seat", timeout=0.3)
        assert lock.acquire(blocking=False)
        lease = await client.lock("seat", ttl=60).acquire(timeout=SOON)
        with pytest.raises(LockNotOwnedError):
            lock.release()
        lease.check()
        assert await lease.release() is True

    run(flavor, scenario)


def test_nobody_meets_another_inside(flavor: str, url: str, theirs: redis.Redis) -> None:
    """Their threads and ours, again and again: whoever comes in must be alone until it leaves."""
    inside: set[str] = set()
    met: list[set[str]] = []
    visits: list[str] = []

    def enter(who: str) -> None:
        inside.add(who)
        visits.append(who)
        met.append({*inside})

    def their_turns(who: str) -> None:
        for _ in range(20):
            with theirs.lock("seat", timeout=60, sleep=0.001, blocking_timeout=SOON):
                enter(who)
                time.sleep(0.001)  # a moment in which somebody could come in
                inside.remove(who)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)

        async def our_turns(who: str) -> None:
            for _ in range(20):
                async with client.lock("seat", ttl=60, timeout=SOON):
                    enter(who)
                    await lab.let_pass(0.001)
                    inside.remove(who)

        threads = [threading.Thread(target=their_turns, args=(f"they {n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        jobs = [lab.start(our_turns(f"we {n}")) for n in range(2)]
        for job in jobs:
            await job.result(60)
        for thread in threads:
            thread.join(60)

    run(flavor, scenario)
    assert len(visits) == 80
    assert [together for together in met if len(together) > 1] == []
