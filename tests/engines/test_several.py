"""Several locks at once: how often the engine is asked, and what is left when that is given up.

What ``client.locks()`` promises on every engine is for the conformance checks to say.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencelock import AcquireTimeout, OutcomeUnknown, aio, observe
from fencelock.engines.sqlite.wire.database import Database
from fencelock.model import Request, Together
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from tests.faults.flavors import FLAVORS, Lab, make_end, run
from tests.faults.stepping import WAYS, CancelAt
from tests.faults.sweeps import DELAYS
from tests.servers.cluster import Cluster
from tests.servers.etcd import Etcd
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.shared import shared

TTL_S = 60.0
NAMES = ("seat:1", "seat:2", "seat:3")
ENGINES = ("memory", "sqlite", "redis", "postgresql", "etcd")
_number = itertools.count()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each engine that takes several locks in one step."""
    fresh: dict[str, Callable[[], str]] = {
        "memory": lambda: f"memory://several-{next(_number)}",
        "sqlite": lambda: f"sqlite:///{tmp_path}/locks.db",
        "redis": lambda: shared(Redis).fresh_url(),
        "postgresql": lambda: shared(Postgresql).url(f"table=several_{next(_number)}"),
        "etcd": lambda: f"{shared(Etcd).url}?prefix=several-{next(_number)}/",
    }
    return fresh[request.param]()


# Round trips


async def warm(client: aio.Client) -> None:
    """Do everything once, so that connections are open and scripts are known."""
    for locks in (client.locks("warm:1", "warm:2", ttl=TTL_S), client.lock("warm:1", ttl=TTL_S)):
        async with locks:
            pass


async def see_round_trips(client: aio.Client, trips: Callable[[], int]) -> None:
    """Acquire, fail to acquire and release several, counting the requests of each."""
    await warm(client)
    before = trips()
    leases = await client.locks(*NAMES, ttl=TTL_S).acquire()
    assert trips() - before == 1
    before = trips()
    assert await client.locks("seat:0", *NAMES).try_acquire() is None
    assert trips() - before == 1
    before = trips()
    assert await leases.release() is True
    assert trips() - before == 1
    before = trips()
    async with client.locks(*NAMES, ttl=TTL_S) as leases:
        leases.check()
    assert trips() - before == 2


def test_redis_takes_several_in_one_round_trip(flavor: str) -> None:
    with Proxy(shared(Redis).port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(f"redis://{proxy.address}/0?prefix=s{next(_number)}:")
            await see_round_trips(client, lambda: proxy.requests)

        run(flavor, scenario)


def test_postgresql_takes_several_in_one_round_trip(flavor: str) -> None:
    server = shared(Postgresql)
    with Proxy(server.port) as proxy:
        through = server.url(f"table=several_{next(_number)}").replace(
            f":{server.port}/", f":{proxy.port}/"
        )

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(through)
            await see_round_trips(client, lambda: proxy.requests)

        run(flavor, scenario)


def test_etcd_takes_several_in_one_transaction(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(f"{shared(Etcd).url}?prefix=several-{next(_number)}/")
        cluster: Any = client._core.engine._cluster  # type: ignore[attr-defined]
        calls: list[str] = []
        call = cluster.wire.call

        def count(member: int, channel: int, method: str, *args: Any) -> Any:
            calls.append(method)
            return call(member, channel, method, *args)

        cluster.wire.call = count
        await see_round_trips(client, lambda: sum("Txn" in one for one in calls))
        del cluster.wire.call

    run(flavor, scenario)


def test_sqlite_takes_several_in_one_transaction(
    flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("_transaction", "_autocommit"):
        step = getattr(Database, name)

        def count(*args: Any, step: Any = step, name: str = name) -> Any:
            steps.append(name)
            return step(*args)

        monkeypatch.setattr(Database, name, count)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(f"sqlite:///{tmp_path}/locks.db")
        await see_round_trips(client, lambda: len(steps))

    run(flavor, scenario)


def two_primaries() -> Cluster:
    return Cluster(primaries=2, replicas=0)


def test_a_cluster_takes_several_in_one_round_trip_if_they_are_in_one_slot(flavor: str) -> None:
    cluster = shared(two_primaries)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(cluster.url)
        engine = client._core.engine
        for names, at_once in ((["{a}:1", "{a}:2"], True), (["a", "b"], False)):
            asked = [Request(name, f"{name}-owner", TTL_S) for name in names]
            answer: Together = await engine.acquire_all(asked)
            assert isinstance(answer, list) is at_once
            for grant in answer if isinstance(answer, list) else ():
                assert await engine.release(grant)
            async with client.locks(*names, ttl=TTL_S) as leases:
                assert sorted(leases) == names
                assert await client.locks(*names).try_acquire() is None
            for name in names:
                assert await client.holders(name) == []

    run(flavor, scenario)


# What others see


def test_who_has_to_wait_does_so_in_the_order_of_names(url: str, flavor: str) -> None:
    """One who waits for the second holds the first, and who came before is not overtaken."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        held = await other.lock("seat:2", ttl=TTL_S).acquire()

        async def take_both() -> dict[str, int]:
            async with client.locks("seat:2", "seat:1", ttl=TTL_S, timeout=None) as leases:
                return leases.fences

        both = lab.start(take_both())
        await lab.until_queued(other, "seat:2", 1)
        assert await other.lock("seat:1").try_acquire() is None
        late = lab.start(other.lock("seat:2", ttl=TTL_S).acquire())
        await lab.until_queued(other, "seat:2", 2)
        assert await held.release()
        fences = await both.result()
        lease = await late.result()
        assert held.fence < fences["seat:2"] < lease.fence
        await lease.release()

    run(flavor, scenario)


def test_each_is_an_event_and_each_is_renewed(url: str, flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        events: list[observe.Event] = []
        unsubscribe = observe.subscribe(events.append)
        try:
            client = await lab.connect(url)
            leases = await client.locks(*NAMES, ttl=TTL_S).acquire()
            for lease in leases.values():
                await lab.until_renewed(lease)
            assert await leases.release()
        finally:
            unsubscribe()
        for kind in ("acquired", "released"):
            seen = {event.name: event.fence for event in events if event.kind == kind}
            assert seen == leases.fences

    run(flavor, scenario)


def test_names_of_which_one_begins_another_are_several(url: str, flavor: str) -> None:
    """In etcd the keys of ``a/b`` begin like those of ``a``."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        below = await other.lock("a/b/c", ttl=TTL_S).acquire()
        leases = await client.locks("a", "a/b", ttl=TTL_S).try_acquire()
        assert leases is not None
        for name in ("a", "a/b"):
            assert await other.lock(name).try_acquire() is None
        below.check()
        assert await leases.release()
        assert await below.release()

    run(flavor, scenario)


# What is given up


async def assert_nothing_is_left(fresh: aio.Client, where: str) -> None:
    for name in NAMES:
        state = await fresh.inspect(name)
        assert (state.holders, state.waiters) == ((), ()), where
    leases = await fresh.locks(*NAMES).try_acquire()
    assert leases is not None, where
    assert await leases.release() is True


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("busy", [False, True])
def test_an_acquire_of_several_cancelled_at_any_await_leaves_nothing(
    url: str, delay: str, way: str, busy: bool
) -> None:
    async def main() -> None:
        faults = Faults()
        async with await faulty.connect_aio(url, faults) as slow, aio.connect(url) as fresh:
            if DELAYS[delay]:
                faults.delay(*faulty.VERBS, before=DELAYS[delay], after=DELAYS[delay])
            place = 0
            for place in range(200):
                held = await fresh.lock(NAMES[1], ttl=TTL_S).acquire() if busy else None
                locks = slow.locks(*NAMES, ttl=TTL_S)
                step = CancelAt(locks.acquire(timeout=0.02 if busy else None), place, way)
                try:
                    leases = await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                except AcquireTimeout:
                    assert busy
                else:
                    assert not step.hit, "a cancellation was swallowed"
                    assert await leases.release()
                if held is not None:
                    assert await held.release()
                await assert_nothing_is_left(fresh, f"cancelled {way} at await no. {place}")
                if not step.hit:
                    break
            assert place > 0 or url.startswith("memory")
            faults.heal()

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", ["release", "block"])
def test_a_release_of_several_cancelled_at_any_await_still_releases(
    url: str, way: str, ending: str
) -> None:
    async def main() -> None:
        faults = Faults()
        async with await faulty.connect_aio(url, faults) as slow, aio.connect(url) as fresh:
            faults.delay(*faulty.VERBS, before=0.003, after=0.003)

            async def release(leases: Any) -> None:
                if ending == "release":
                    await leases.release()
                else:
                    async with leases:
                        pass

            place = 0
            for place in range(200):
                leases = await slow.locks(*NAMES, ttl=TTL_S).acquire()
                step = CancelAt(release(leases), place, way)
                try:
                    await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                assert not leases
                await assert_nothing_is_left(fresh, f"cancelled {way} at await no. {place}")
                if not step.hit:
                    break
            assert place > 0
            faults.heal()

    asyncio.run(main())


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_engine_that_falls_silent_is_told_of_and_undone(
    url: str, flavor: str, where: Any
) -> None:
    """Nobody answers, not even to take it back: it is unknown, and nothing is left in the end."""

    async def scenario(lab: Lab) -> None:
        faults = Faults()
        client, fresh = await lab.connect(url, faults), await lab.connect(url)
        await warm(client)
        faults.hang("acquire", "withdraw", where=where)
        job = lab.start(client.locks(*NAMES, ttl=TTL_S).try_acquire())
        with pytest.raises(OutcomeUnknown):
            await job.result()
        assert {owed.name for owed in client.owed} == {*NAMES}
        faults.heal()
        await lab.until(lambda: not client.owed, "all to be taken back")
        await assert_nothing_is_left(fresh, "at the end")

    run(flavor, scenario)


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_a_release_of_several_without_an_answer_is_a_release(
    url: str, flavor: str, lost: str
) -> None:
    async def scenario(lab: Lab) -> None:
        faults = Faults()
        client, fresh = await lab.connect(url, faults), await lab.connect(url)
        leases = await client.locks(*NAMES, ttl=TTL_S).acquire()
        (faults.lose_replies if lost == "replies" else faults.lose_requests)(1, "release")
        assert await leases.release() is True
        await assert_nothing_is_left(fresh, "after release()")
        leases = await client.locks(*NAMES, ttl=TTL_S).acquire()
        async with leases:
            (faults.lose_replies if lost == "replies" else faults.lose_requests)(1, "release")
        await assert_nothing_is_left(fresh, "after the block")

    run(flavor, scenario)


def test_a_lease_that_ended_in_the_block_is_told_of_and_the_others_are_left(
    url: str, flavor: str
) -> None:
    from fencelock import Expired

    async def scenario(lab: Lab) -> None:
        client, fresh = await lab.connect(url), await lab.connect(url)
        with pytest.raises(Expired):
            async with client.locks(*NAMES, ttl=TTL_S, renew=False) as leases:
                make_end(leases[NAMES[1]])
        await assert_nothing_is_left(fresh, "after the block")

    run(flavor, scenario)


# Old programs and other roles


def test_a_database_without_the_function_is_asked_for_one_after_another(flavor: str) -> None:
    """A role that may not make the function, in tables of an older program, locks as before."""
    server, table = shared(Postgresql), f"several_{next(_number)}"

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        with psycopg.connect(server.conninfo, autocommit=True) as link:
            link.execute(f"DROP FUNCTION {table}_take_together".encode())
        for _ in range(2):
            async with client.locks(*NAMES, ttl=TTL_S) as leases:
                assert sorted(leases) == [*NAMES]
        newer = await lab.connect(server.url(f"table={table}"))
        asked = [Request(name, f"{name}-owner", TTL_S) for name in NAMES]
        answer = await newer._core.engine.acquire_all(asked)
        assert isinstance(answer, list), "who may make the function did not"
        for grant in answer:
            await newer._core.engine.release(grant)

    run(flavor, scenario)
