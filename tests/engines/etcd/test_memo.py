"""What etcd remembers for a name, on which leases, and who is told of changes."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import OutcomeUnknown, aio
from fencelock.engines.etcd import lease as lease_module
from fencelock.engines.etcd import watch as watch_module
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.messages import requests
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd

WRITERS, NUMBERS = 4, 10


def engine_of(client: aio.Client) -> EtcdEngine:
    engine = client._core.engine
    assert isinstance(engine, EtcdEngine)
    return engine


def test_a_name_has_one_lease_whatever_is_written(flavor: str) -> None:
    """One that is replaced by a longer one is revoked, and so is that of what is forgotten."""

    async def scenario(lab: Lab) -> None:
        engine = engine_of(await lab.connect(server.url))
        await engine.remember("seat", "a", 1, 60.0)
        (first,) = server.leases()
        for number in range(5):
            await engine.remember("seat", f"item-{number}", number, 30.0)
        assert server.leases() == [first]
        await engine.remember("seat", "a", 0, 600.0)
        (second,) = server.leases()
        assert second != first
        assert "ttl(600s)" in server.ctl("lease", "timetolive", second).stdout.replace(
            "granted with TTL", "ttl"
        )
        items = dict(await engine.recall("seat"))
        assert items == {"a": 1, **{f"item-{number}": number for number in range(5)}}
        await engine.forget("seat")
        assert server.leases() == []
        assert server.keys() == []

    with Etcd() as server:
        run(flavor, scenario)


def test_nothing_is_lost_by_clients_that_write_at_the_same_time(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    async def scenario(lab: Lab) -> None:
        async def write(client: aio.Client, writer: int) -> None:
            for number in range(NUMBERS):
                keep = 60.0 + writer * NUMBERS + number  # so that leases are replaced all the time
                await engine_of(client).remember(prefix, f"of {writer}", number, keep)
                await engine_of(client).remember(prefix, "all", number, keep)

        clients = [await lab.connect(etcd.url) for _ in range(WRITERS)]
        jobs = [lab.start(write(client, number)) for number, client in enumerate(clients)]
        for job in jobs:
            await job.result(120)
        items = dict(await engine_of(clients[0]).recall(prefix))
        last = NUMBERS - 1
        assert items == {"all": last, **{f"of {writer}": last for writer in range(WRITERS)}}
        await engine_of(clients[0]).forget(prefix)

    run(flavor, scenario)


def test_what_was_extended_by_a_leader_that_is_no_more_is_extended_again(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keep-alive counts only when the same member has then answered something linearizable."""

    async def scenario(lab: Lab) -> None:
        engine = engine_of(await lab.connect(etcd.url))
        await engine.remember(prefix, "a", 1, 60.0)
        cluster, asked = engine._cluster, list[str]()
        call = cluster.wire.call

        async def switching(*arguments: Any) -> bytes:
            answer = await call(*arguments)
            asked.append(arguments[2])
            if asked.count(requests.LEASE_KEEP_ALIVE) == 1:
                cluster.switch_from(cluster.epoch)
            return answer

        monkeypatch.setattr(cluster.wire, "call", switching)
        await engine.remember(prefix, "a", 1, 60.0)
        assert asked.count(requests.LEASE_KEEP_ALIVE) == 2
        await engine.forget(prefix)

    run(flavor, scenario)


def test_a_write_without_an_answer_can_be_repeated(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        engine = engine_of(await lab.connect(etcd.url))
        wire, lost = engine._cluster.wire, list[str]()
        call = wire.call

        async def losing(*arguments: Any) -> bytes:
            answer = await call(*arguments)
            if arguments[2] == requests.TXN and not lost:
                lost.append(arguments[2])
                raise RpcError("UNAVAILABLE", "on its way")
            return answer

        monkeypatch.setattr(wire, "call", losing)
        with pytest.raises(OutcomeUnknown):
            await engine.remember(prefix, "a", 1, 60.0)
        await engine.remember(prefix, "a", 1, 60.0)
        assert dict(await engine.recall(prefix)) == {"a": 1}
        await engine.forget(prefix)

    run(flavor, scenario)


def test_an_observer_is_told_after_its_stream_broke(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks once when the stream breaks and once when there is another; then it is told."""
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)
    monkeypatch.setattr(watch_module, "QUIET_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        engine, signal = engine_of(client), client._core.world.signal()
        await engine.observe(prefix, signal)
        watches = engine._watches
        for change in range(2):
            watches._break(watches._generation)
            assert signal.is_set()
            signal.clear()
            await lab.until(signal.is_set, "a watch that has begun again")
            signal.clear()
            await engine_of(other).remember(prefix, "change", change, 60.0)
            await lab.until(signal.is_set, "word of a change")
        await engine.unobserve(prefix, signal)
        assert not watches.observed()
        assert watches._watching == {}
        signal.clear()
        await engine_of(other).forget(prefix)
        await lab.let_pass(0.1)
        assert not signal.is_set()

    run(flavor, scenario)


def test_observers_are_told_of_every_kind_and_not_of_names_below(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        engine, world = engine_of(client), client._core.world
        signal, below = world.signal(), world.signal()
        await engine.observe(prefix, signal)
        await engine.observe(f"{prefix}/below", below)
        lease = await other.lock(f"{prefix}/below", ttl=60).acquire()
        await engine_of(other).remember(f"{prefix}/below", "a", 1, 60.0)
        await lab.until(below.is_set, "word of the name below")
        assert await lease.release()
        await engine_of(other).forget(f"{prefix}/below")
        assert not signal.is_set(), "a name below is another name"
        theirs = engine_of(other)
        for change in (theirs.remember(prefix, "a", 1, 60.0), theirs.forget(prefix)):
            await change
            await lab.until(signal.is_set, "word of a change")
            signal.clear()
        await engine.unobserve(prefix, signal)
        await engine.unobserve(f"{prefix}/below", below)

    run(flavor, scenario)
