"""Semaphores, read/write locks, what is remembered and who observes, at a real server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from fencelock import Misconfigured, OutcomeUnknown, Unavailable, UsageError
from fencelock.engines.redis.keys import holders_of, remembered_of
from fencelock.model import Grant, Request, Share
from fencelock.testing.conformance.context import engine_of
from tests.faults.flavors import FLAVORS, SOON, Lab, run
from tests.servers.redis import Redis
from tests.servers.resp import Line

TTL = 600.0  # whoever gets a share by the end of a lease gets it too late
SLOT = Share("semaphore", 1, 1)
READ = Share("rwlock", 1, 1_000_000)


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


def test_names_that_end_like_the_keys_of_others_share_nothing(flavor: str, server: Redis) -> None:
    base = holders_of("a", "semaphore")
    names = [
        "a",
        base,
        f"{base}:expiry",
        f"{base}:queue",
        "a:semaphore",
        "{a}",
        "a}{",
        "fencelock:a",
    ]

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        engine = engine_of(client)
        leases = []
        for name in names:
            leases += [
                await client.lock(name, ttl=TTL).acquire(timeout=0),
                await client.semaphore(name, limit=1, ttl=TTL).acquire(timeout=0),
                await client.rwlock(name, ttl=TTL).write().acquire(timeout=0),
            ]
            await engine.remember(name, "item", 1, TTL)
        for name in names:
            state = await client.inspect(name)
            assert [one.role for one in state.holders] == ["lock", "semaphore", "write"]
        everything = {(one.name, one.role) for one in await engine.scan("")}
        assert everything == {(n, r) for n in names for r in ("lock", "semaphore", "write")}
        assert await client.revoke(names[0], "why")
        for lease in leases:
            assert await lease.release() is (lease not in leases[:3])

    run(flavor, scenario)


def test_what_is_not_claimed_goes_to_the_next(flavor: str, server: Redis) -> None:
    """The first waiter is told and does not ask: the second gets the slot, and before the ttl."""

    async def scenario(lab: Lab) -> None:
        client, silent = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.semaphore("seat", limit=1, ttl=TTL).acquire()
        signal = silent._core.world.signal()
        request = Request("seat", "s" * 32, TTL, queue=True, share=SLOT)
        await engine_of(silent).watch(request, signal)
        await engine_of(silent).acquire(request)
        rival = await lab.connect(server.url)
        waiter = lab.start(rival.semaphore("seat", limit=1, ttl=TTL).acquire(timeout=SOON))
        await lab.until_queued(client, "seat", 2)
        await lease.release()
        heir = await waiter.result()
        assert heir.fence > lease.fence
        await heir.release()
        await engine_of(silent).unwatch(request)

    run(flavor, scenario)


def test_the_share_of_a_reader_that_died_is_free_when_its_lease_ends(
    flavor: str, server: Redis
) -> None:
    async def scenario(lab: Lab) -> None:
        client, dead = await lab.connect(server.url), await lab.connect(server.url)
        lost = await engine_of(dead).acquire(Request("seat", "d" * 32, 1.0, share=READ))
        assert isinstance(lost, Grant)
        await dead.close()  # nobody renews it, and nobody gives it back
        reader = await client.rwlock("seat", ttl=TTL).read().acquire(timeout=0)
        writer = lab.start(client.rwlock("seat", ttl=TTL).write().acquire(timeout=SOON))
        await lab.until_queued(client, "seat", 1)
        await reader.release()
        heir = await writer.result()
        assert heir.fence > lost.fence
        await heir.release()

    run(flavor, scenario)


def test_who_could_not_leave_the_queue_gives_its_share_back(flavor: str, server: Redis) -> None:
    """The server was silent when the waiter gave up, and notifies it later."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        rival = await lab.connect(server.url, request_timeout=0.3)
        lease = await client.rwlock("seat", ttl=TTL).write().acquire()
        waiter = lab.start(rival.rwlock("seat", ttl=TTL).write().acquire(timeout=1))
        await lab.until_queued(client, "seat", 1)
        server.pause()
        with pytest.raises(Exception, match="seat"):
            await waiter.result()
        server.resume()
        assert await lease.release() is True
        await (await client.rwlock("seat", ttl=TTL).write().acquire(timeout=SOON)).release()

    run(flavor, scenario)


@pytest.mark.parametrize("loss", ["FLUSHALL", "restart"])
def test_fences_grow_after_the_server_lost_its_data(flavor: str, server: Redis, loss: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        before = [
            await client.semaphore("seat", limit=2, ttl=TTL).acquire(),
            await client.rwlock("seat", ttl=TTL).read().acquire(),
        ]
        if loss == "restart":
            server.stop()
            server.start()
        else:
            server.cli("FLUSHALL")
        fresh = await lab.connect(server.url)
        after = [
            await fresh.semaphore("seat", limit=2, ttl=TTL).acquire(timeout=0),
            await fresh.rwlock("seat", ttl=TTL).read().acquire(timeout=0),
        ]
        assert all(new.fence > old.fence for old, new in zip(before, after, strict=True))
        for lease in (*before, *after):
            await lease.release()

    run(flavor, scenario)


def test_another_limit_is_refused_and_leaves_nobody_in_the_queue(
    flavor: str, server: Redis
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.semaphore("seat", limit=1, ttl=TTL).acquire()
        waiter = lab.start(client.semaphore("seat", limit=1, ttl=TTL).acquire(timeout=SOON))
        await lab.until_queued(client, "seat", 1)
        with pytest.raises(UsageError, match="limit=1, and limit=2"):
            await other.semaphore("seat", limit=2, ttl=TTL).acquire(timeout=SOON)
        assert len((await client.inspect("seat")).waiters) == 1
        await lease.release()
        heir = await waiter.result()
        await heir.release()
        state = await client.inspect("seat")
        assert (state.holders, state.limit) == ((), None)
        slots = [await other.semaphore("seat", limit=2, ttl=TTL).acquire(timeout=0) for _ in "ab"]
        assert [lease.slot for lease in slots] == [0, 1]
        for lease in slots:
            await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("kind", ["semaphore", "rwlock"])
def test_sixty_four_holders_cost_no_more_than_one(flavor: str, server: Redis, kind: str) -> None:
    """Counted in commands that the server runs, those of scripts included."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        semaphore, lock = (
            client.semaphore("many", limit=100, ttl=TTL),
            client.rwlock("many", ttl=TTL),
        )
        share = semaphore if kind == "semaphore" else lock.read()
        held = [await share.acquire()]

        async def pair() -> dict[str, int]:
            server.forget_calls()
            await (await share.acquire()).release()
            return server.calls()

        await pair()  # a slot was never given before: that is one command less
        few = await pair()
        held += [await share.acquire() for _ in range(63)]
        await pair()
        assert await pair() == few
        for lease in held:
            await lease.release()

    run(flavor, scenario)


def test_nothing_is_kept_for_ever(flavor: str, server: Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(server.url), await lab.connect(server.url)
        signal = client._core.world.signal()
        await engine_of(client).observe("seat", signal)
        await engine_of(client).remember("seat", "item", 1, 60.0)
        for lock in (client.semaphore("seat", limit=1, ttl=TTL), client.rwlock("seat").write()):
            lease = await lock.acquire()
            again = (
                rival.semaphore("seat", limit=1) if lease.slot == 0 else rival.rwlock("seat").read()
            )
            waiter = lab.start(again.acquire(timeout=SOON))
            await lab.until_queued(client, "seat", 1)
            await lease.release()
            await (await waiter.result()).release()
        with Line(server.port) as line:
            kept = {key: line.ask("PTTL", key) for key in line.ask("KEYS", "*")}
        assert len(kept) >= 6
        assert all(0 < ttl <= (3600 + 600 + TTL) * 1000 for ttl in kept.values()), kept
        await engine_of(client).unobserve("seat", signal)

    run(flavor, scenario)


def test_what_is_remembered_goes_when_its_time_is_over(flavor: str, server: Redis) -> None:
    async def scenario(lab: Lab) -> None:
        engine = engine_of(await lab.connect(server.url))
        await engine.remember("seat", "item", 2**53 - 1, 0.2)
        await engine.remember("seat", "item", 2**53, 0.1)
        with Line(server.port) as line:
            assert 0 < line.ask("PTTL", remembered_of("seat")) <= 200
            assert line.ask("HGETALL", remembered_of("seat")) == ["item", str(2**53)]
            await lab.until(lambda: not line.ask("EXISTS", remembered_of("seat")))
        assert await engine.recall("seat") == {}

    run(flavor, scenario)


def test_an_observer_is_told_after_the_server_forgot_it(flavor: str, server: Redis) -> None:
    """Its connection broke, so it may have missed something: it is to look, and is told again."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        signal = client._core.world.signal()
        await engine_of(client).observe("seat", signal)
        server.cli("FLUSHALL")
        server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        await lab.until(signal.is_set, "whoever was cut off is to look")
        await engine_of(client).unobserve("seat", signal)
        signal.clear()
        await engine_of(client).observe("seat", signal)
        await engine_of(other).announce("seat")
        await lab.until(signal.is_set, "an announcement")
        await engine_of(client).unobserve("seat", signal)

    run(flavor, scenario)


def test_what_too_few_replicas_have_is_not_believed(flavor: str, server: Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url, replicas=1, request_timeout=5)
        with pytest.raises(Unavailable, match="0 of 1 replicas confirmed the grant of 'seat'"):
            await client.semaphore("seat", limit=1, ttl=TTL).acquire(timeout=0)
        assert await client.holders("seat") == []
        with pytest.raises(OutcomeUnknown, match="0 of 1 replicas confirmed what is remembered"):
            await engine_of(client).remember("seat", "item", 1, TTL)

    run(flavor, scenario)


def test_the_end_of_fences_is_said_and_nothing_is_given(flavor: str, server: Redis) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        semaphore, key = client.semaphore("seat", limit=2, ttl=TTL), holders_of("seat", "semaphore")
        await (await semaphore.acquire()).release()
        limit, used, slots, _, kept, waiting = server.cli("HGET", key, "=").split(" ")
        state = " ".join([limit, used, slots, str(2**53 - 1), kept, waiting])
        server.cli("HSET", key, "=", state)
        with pytest.raises(Misconfigured, match="NOFENCE"):
            await semaphore.acquire(timeout=0)
        assert await client.holders("seat") == []

    run(flavor, scenario)


WORKER = """
import sys, threading, fencelock
from tests.servers.resp import Line
url, kind = sys.argv[1:3]
port, rounds, seed = map(int, sys.argv[3:])
client = fencelock.connect(url)
wrong = []

def inside(line, own, most, others):
    if line.ask("INCR", own) > most or others and int(line.ask("GET", others) or 0):
        wrong.append(own)
    line.ask("ECHO", "so that others may come")
    line.ask("DECR", own)

def work(number):
    with Line(port) as line:
        for turn in range(rounds):
            if kind == "semaphore":
                with client.semaphore("storm", limit=2, ttl=20, timeout=60) as lease:
                    inside(line, f"count:slot:{lease.slot}", 1, None)
                    inside(line, "count:slots", 2, None)
            elif (turn + number + seed) % 4:
                with client.rwlock("storm", ttl=20, timeout=60).read():
                    inside(line, "count:readers", 100, "count:writers")
            else:
                with client.rwlock("storm", ttl=20, timeout=60).write():
                    inside(line, "count:writers", 1, "count:readers")

threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
client.close()
print("wrong", *wrong) if wrong else print("done")
"""


@pytest.mark.parametrize("kind", ["semaphore", "rwlock"])
def test_in_a_storm_of_processes_nobody_is_beside_whom_it_must_not_be(
    server: Redis, kind: str
) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, server.url, kind, str(server.port), "25", str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed in range(3)
    ]
    said = [worker.communicate(timeout=120)[0].strip() for worker in workers]
    assert said == ["done"] * 3
    assert server.cli("ZCARD", holders_of("storm", kind) + ":queue") == 0
    state = server.cli("HGET", holders_of("storm", kind), "=").split(" ")
    assert state[1] == "0", "something is still held"
