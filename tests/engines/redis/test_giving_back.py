"""A lock that is handed to an owner that has given up is given back at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencelock import AcquireTimeout, FencelockError
from fencelock.engines.redis.keys import keys_of
from fencelock.engines.redis.scripts import script
from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.redis import Redis
from tests.servers.resp import Line
from tests.servers.shared import shared

TTL = 600.0  # whoever gets the lock by its end gets it too late


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


def test_who_could_not_leave_the_queue_gives_the_lock_back(flavor: str, server: Redis) -> None:
    """The server was silent when the waiter gave up, and hands it the lock later."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        rival = await lab.connect(server.url, request_timeout=1)
        lease = await client.lock("seat", ttl=TTL).acquire()
        waiter = lab.start(rival.lock("seat", ttl=TTL).acquire(timeout=3))
        await lab.until_queued(client, "seat", 1)
        server.pause()
        with pytest.raises(FencelockError):
            await waiter.result(30)
        server.resume()
        assert await lease.release() is True
        again = await client.lock("seat", ttl=TTL).acquire(timeout=SOON)
        await again.release()

    run(flavor, scenario)


def test_who_is_handed_a_lock_after_it_left_gives_it_back(flavor: str, server: Redis) -> None:
    """Its request to queue was served late, after the one that took it back."""
    name = "late"

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock(name, ttl=TTL).acquire()
        elsewhere = await client.lock("other", ttl=TTL).acquire()
        other = lab.start(rival.lock("other", ttl=TTL).acquire(timeout=60))
        await lab.until_queued(client, "other", 1)  # so that somebody listens
        waiter = lab.start(rival.lock(name, ttl=TTL).acquire(timeout=3))
        await lab.until_queued(client, name, 1)
        with Line(server.port) as line:
            keys = keys_of(name)
            (owner,) = line.ask("ZRANGE", keys.queue, 0, -1)
            ttl, inbox, *_ = line.ask("HGET", keys.waiters, owner).split(" ")
            with pytest.raises(AcquireTimeout):
                await waiter.result()
            assert line.ask("ZCARD", keys.queue) == 0
            words = (owner, ttl, "{}", inbox)
            line.ask("EVAL", script("acquire").source, 3, *keys.declared, *words)
        await lab.until_queued(client, name, 1)
        assert await lease.release() is True
        again = await client.lock(name, ttl=TTL).acquire(timeout=SOON)
        await again.release()
        await elsewhere.release()
        await (await other.result()).release()

    run(flavor, scenario)


def test_what_an_owner_got_since_is_not_given_back() -> None:
    """It took an attempt back and asked again; the word of the old hand-over may come later."""
    keys, owner = keys_of("since"), "a" * 32
    with Line(shared(Redis).port) as line:
        line.ask("DEL", *keys)
        old, new = (_turn(line, owner) for _ in range(2))
        assert line.ask("GET", keys.lock) == owner
        assert _give_back(line, owner, old) == 0
        assert line.ask("GET", keys.lock) == owner, "it was another grant"
        assert _give_back(line, "b" * 32, new) == 0
        assert _give_back(line, owner, "") == 0, "it was not only called"
        assert _give_back(line, owner, new) == 1
        assert line.ask("EXISTS", keys.lock) == 0


def _turn(line: Line, owner: str) -> str:
    keys = keys_of("since")
    line.ask("EVAL", script("release").source, 3, *keys.declared, owner)
    return str(line.ask("EVAL", script("acquire").source, 3, *keys.declared, owner, 60_000, "{}"))


def _give_back(line: Line, owner: str, fence: str) -> int:
    keys = keys_of("since")
    return int(line.ask("EVAL", script("give_back").source, 3, *keys.declared, owner, fence, "1"))
