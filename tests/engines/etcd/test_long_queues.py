"""Hundreds who wait for one lock: each reads the ends of the queue, and one lease carries all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fencelock import aio
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.messages import requests
from fencelock.engines.etcd.queue import LONG
from tests.faults.flavors import SOON, Lab, run
from tests.servers.etcd import Etcd

COUNT = 3 * LONG


def engine_of(client: aio.Client) -> EtcdEngine:
    engine = client._core.engine
    assert isinstance(engine, EtcdEngine)
    return engine


def overhear(client: aio.Client, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a client asks for what, and for how many bytes, from now on."""
    wire, heard = engine_of(client)._cluster.wire, Counter[str]()
    call = wire.call

    async def listening(*arguments: Any) -> bytes:
        answer = await call(*arguments)
        heard[arguments[2]] += 1
        heard["bytes"] += len(answer)
        return answer

    monkeypatch.setattr(wire, "call", listening)
    return heard


async def take_turn(client: aio.Client, name: str, turns: list[int]) -> None:
    async with client.lock(name, ttl=60, timeout=6 * SOON) as lease:
        turns.append(lease.fence)


def test_many_who_come_at_once_share_a_lease_and_take_two_requests_a_turn(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        holder, client = await lab.connect(etcd.url), await lab.connect(etcd.url)
        heard, turns = overhear(client, monkeypatch), list[int]()
        lease = await holder.lock(prefix, ttl=60).acquire()
        jobs = [lab.start(take_turn(client, prefix, turns)) for _ in range(COUNT)]
        await lab.until_queued(holder, prefix, COUNT, within=6 * SOON)
        assert heard[requests.LEASE_GRANT] == 1
        await lab.until(lambda: _watching(client) == COUNT, "all of them watch", 6 * SOON)
        heard.clear()
        await lease.release()
        for job in jobs:
            await job.result(within=6 * SOON)
        assert turns == sorted(turns)
        assert len(turns) == COUNT
        # The first of them look again, and at the holder, where their watch begins only now.
        assert heard[requests.RANGE] + heard[requests.TXN] <= 2 * COUNT + 2 * LONG < 3 * COUNT
        assert heard["bytes"] < 500 * COUNT, "nobody reads the whole queue"

    run(flavor, scenario)


def _watching(client: aio.Client) -> int:
    watcher = engine_of(client)._watches
    return sum(watch.own is not None for watch in list(watcher._watching.values()))


@pytest.mark.parametrize("below", [False, True])
def test_who_stands_far_behind_is_told_when_the_one_before_it_gives_up(
    flavor: str, below: bool, etcd: Etcd, prefix: str
) -> None:
    """It looks at the ends of the queue, and goes on waiting for another; a contender for a name
    below this one, which etcd lists with them, is not mistaken for one of them."""

    async def scenario(lab: Lab) -> None:
        holder, client = await lab.connect(etcd.url), await lab.connect(etcd.url)
        turns = list[int]()
        lease = await holder.lock(prefix, ttl=60).acquire()
        jobs = [lab.start(take_turn(client, prefix, turns)) for _ in range(LONG + 4)]
        await lab.until_queued(holder, prefix, LONG + 4, within=6 * SOON)
        inner = await holder.lock(f"{prefix}/inner", ttl=60).acquire() if below else None
        before = lab.start(holder.lock(prefix, ttl=60).try_acquire(timeout=1.5))
        await lab.until_all_queued(holder, prefix, *jobs, before, within=6 * SOON)
        last = lab.start(take_turn(client, prefix, turns))
        await lab.until_all_queued(holder, prefix, *jobs, before, last, within=6 * SOON)
        assert await before.result(within=SOON) is None  # its time is over: it leaves
        await lab.until_queued(holder, prefix, LONG + 5, within=6 * SOON)
        await lab.let_pass(0.3)
        assert turns == []
        await lease.release()
        for job in [*jobs, last]:
            await job.result(within=6 * SOON)
        assert turns == sorted(turns)
        assert len(turns) == LONG + 5
        if inner is not None:
            assert await inner.release() is True

    run(flavor, scenario)
