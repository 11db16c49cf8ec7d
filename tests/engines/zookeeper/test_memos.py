"""What is remembered for names, and who is told of changes: what the checks cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines.zookeeper import memos
from tests.engines.zookeeper.contenders import record_requests
from tests.engines.zookeeper.shares import READ, TWO, engine_of, take
from tests.engines.zookeeper.tree import folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.zookeeper import ZooKeeper


async def count(client: Any, item: str, turns: int) -> None:
    for number in range(turns):
        await engine_of(client).remember("seat", item, number, SOON)


def test_writers_at_the_same_time_lose_nothing(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(url) for _ in range(3)]
        jobs = [lab.start(count(client, str(i), 10)) for i, client in enumerate(clients)]
        jobs += [
            lab.start(count(clients[0], "common", 10)),
            lab.start(count(clients[1], "common", 8)),
        ]
        for job in jobs:
            await job.result()
        items = dict(await engine_of(clients[0]).recall("seat"))
        assert items == {"0": 9, "1": 9, "2": 9, "common": 9}

    run(flavor, scenario)


def test_a_write_does_not_bring_back_what_was_forgotten_meanwhile(
    flavor: str, server: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node made anew has the version of the one that was read: that is not enough."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        store, read = engine_of(client)._memos, memos.Memos._read
        reads = 0

        async def read_slowly(self: Any, path: str) -> Any:
            nonlocal reads
            memo = await read(self, path)
            if self is store:
                reads += 1
                if reads == 1:
                    await engine_of(other).forget("seat")
                    await engine_of(other).remember("seat", "new", 5, SOON)
            return memo

        await engine_of(client).remember("seat", "old", 1, SOON)
        monkeypatch.setattr(memos.Memos, "_read", read_slowly)
        await engine_of(client).remember("seat", "mine", 2, SOON)
        assert dict(await engine_of(other).recall("seat")) == {"new": 5, "mine": 2}

    run(flavor, scenario)


def test_what_is_over_goes_by_the_time_of_the_server(
    flavor: str, server: ZooKeeper, kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose clock is ahead asks the server, and forgets nothing too early."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        engine = engine_of(client)
        await engine.remember("long", "item", 1, 1000.0)
        await engine.remember("short", "item", 7, 0.1)
        wall_us = engine.world.wall_us
        monkeypatch.setattr(engine.world, "wall_us", lambda: wall_us() + 5_000_000_000)
        assert dict(await engine.recall("long")) == {"item": 1}
        await engine.remember("long", "item", 2, 0.1)
        await lab.let_pass(0.2)
        assert dict(await engine.recall("long")) == {"item": 2}, "the longer time counts"
        assert dict(await engine.recall("short")) == {}
        assert kazoo.get_children(folder(url, "%memory")) == ["long"]
        await engine.remember("short", "item", 3, 0.1)
        await lab.let_pass(0.2)
        await engine.remember("short", "item", 2, 1000.0)
        assert dict(await engine.recall("short")) == {"item": 2}, "it was over before"

    run(flavor, scenario)


def test_new_names_sweep_away_those_that_are_over(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        for number in range(memos.SWEPT):
            await engine_of(client).remember(f"old:{number}", "item", 1, 0.1)
        await lab.let_pass(0.2)
        for number in range(memos.SWEPT):
            await engine_of(client).remember(f"new:{number}", "item", 1, SOON)
        left = kazoo.get_children(folder(url, "%memory"))
        assert sum(name.startswith("new") for name in left) == memos.SWEPT
        assert sum(name.startswith("old") for name in left) < memos.SWEPT // 2

    run(flavor, scenario)


def test_what_is_remembered_is_no_lock_and_no_name(flavor: str, server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.fresh_url())
        await engine_of(client).remember("seat", "item", 1, SOON)
        assert await client.scan("") == []
        lease = await client.lock("%memory/seat").acquire()
        assert [holding.name for holding in await client.scan("")] == ["%memory/seat"]
        assert dict(await engine_of(client).recall("seat")) == {"item": 1}
        await lease.release()

    run(flavor, scenario)


def test_observers_see_shares_and_memory_by_watches_alone(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        engine, theirs = engine_of(client), engine_of(other)
        signal = engine.world.signal()
        await engine.observe("seat", signal)

        async def told(what: str) -> None:
            await lab.until(signal.is_set, what)
            signal.clear()
            await engine.recall("seat")  # as an observer looks: by then its watches are set anew

        for share in (READ, TWO):
            for _ in range(2):
                grant = await take(other, share)
                await told("a new holder")
                await theirs.release(grant)
                await told("a release")
        for number in range(2):
            await theirs.remember("seat", "item", number, SOON)
            await told("a number")
        await theirs.forget("seat")
        await told("a memory that is gone")
        await engine.unobserve("seat", signal)
        assert not [path for path in engine._connection._session._watches if "seat" in path]
        sent = record_requests(client)
        await theirs.remember("seat", "item", 1, SOON)
        await engine.recall("seat")  # answered after the event, if there was one
        assert sent == ["Sync", "Exists", "GetData"]
        assert not signal.is_set()

    run(flavor, scenario)


def test_observers_are_told_after_a_connection_broke(
    flavor: str, server: ZooKeeper, proxy: Proxy
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(through(proxy, url)), await lab.connect(url)
        engine = engine_of(client)
        signal, observation = engine.world.signal(), engine._observers._names
        await engine.observe("seat", signal)
        proxy.cut()
        await lab.until(signal.is_set, "a broken connection to be told of")
        signal.clear()
        await engine_of(other).remember("seat", "item", 1, SOON)
        proxy.heal()
        session = engine._connection._session
        await lab.until(lambda: len(session._watches) == 4, "watches that are set again")
        await lab.until(lambda: not observation["seat"].is_lost, "watches that are set again")
        await lab.until(signal.is_set, "what came in between to be told of")
        signal.clear()
        await engine_of(other).remember("seat", "item", 2, SOON)
        await lab.until(signal.is_set, "a number")

    run(flavor, scenario)
