"""Semaphores and read/write locks in etcd: keys, costs, lost answers, many processes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import FencelockError, OutcomeUnknown, UsageError, aio
from fencelock._client.lock_options import READ, WRITE
from fencelock.engines.etcd import lease as lease_module
from fencelock.engines.etcd import share_keys
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.messages import replies, requests
from fencelock.engines.etcd.share_keys import lowest_free
from fencelock.engines.etcd.wire import WORK
from fencelock.model import Busy, Grant, Request, Share
from fencelock.wires.grpc.status import RpcError
from fencelock.worlds import clock
from tests.faults.flavors import SOON, Lab, run
from tests.servers.etcd import Etcd

READERS = 64
LEASE_S = 2.0


def engine_of(client: aio.Client) -> EtcdEngine:
    engine = client._core.engine
    assert isinstance(engine, EtcdEngine)
    return engine


def wish(
    client: aio.Client, name: str, share: Share, *, queue: bool = False, ttl: float = 60
) -> Request:
    return Request(name, client._core.world.owner(), ttl, queue=queue, share=share)


def of(limit: int) -> Share:
    return Share("semaphore", 1, limit)


async def held(client: aio.Client, name: str, share: Share, ttl: float = 60) -> Grant:
    answer = await engine_of(client).acquire(wish(client, name, share, ttl=ttl))
    assert isinstance(answer, Grant), answer
    return answer


async def refused(client: aio.Client, name: str, share: Share) -> Busy:
    answer = await engine_of(client).acquire(wish(client, name, share))
    assert isinstance(answer, Busy), answer
    assert not answer.queued
    return answer


class Waiter:
    """Somebody who stands in the queue and is woken."""

    def __init__(self, client: aio.Client, name: str, share: Share, ttl: float = 60) -> None:
        self.engine = engine_of(client)
        self.request = wish(client, name, share, queue=True, ttl=ttl)
        self.signal = client._core.world.signal()

    async def join(self) -> Waiter:
        await self.engine.watch(self.request, self.signal)
        answer = await self.engine.acquire(self.request)
        assert isinstance(answer, Busy), answer
        assert answer.queued
        return self

    async def grant(self, lab: Lab) -> Grant:
        """What it is granted, after it was woken for it: nobody looks without that."""
        while True:
            await lab.until(self.signal.is_set, "a push")
            self.signal.clear()
            answer = await self.engine.acquire(self.request)
            if isinstance(answer, Grant):
                await self.engine.unwatch(self.request)
                return answer


class Overheard:
    """The requests of a client from now on: methods, and the bytes of the longest answer."""

    def __init__(self, client: aio.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.methods: list[str] = []
        self.longest = 0
        wire = engine_of(client)._cluster.wire
        call = wire.call

        async def listening(*arguments: Any) -> bytes:
            answer = await call(*arguments)
            if arguments[1] == WORK:
                self.methods.append(arguments[2])
                self.longest = max(self.longest, len(answer))
            return answer

        monkeypatch.setattr(wire, "call", listening)


def test_names_that_look_like_keys_of_others_have_nothing_in_common(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """Of each kind each name is free, and nobody is kept out by a stranger's."""
    names = ["a", "a/b", "a/", "a0", "a/write", "a/read", "semaphore/1", "names/a", "2/slot", "ä "]

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url, prefix=f"{prefix}/")
        outside = await lab.connect(etcd.url)
        mutexes = [await client.lock(name, ttl=60).acquire(timeout=0) for name in names]
        above = await outside.lock(prefix, ttl=60).acquire(timeout=0)
        grants = [await held(client, name, share) for name in names for share in (WRITE, of(1))]
        for name in names:
            await refused(client, name, READ)
            await refused(client, name, of(1))
            state = await client.inspect(name)
            roles = [(holding.name, holding.role) for holding in state.holders]
            assert sorted(roles) == [(name, "lock"), (name, "semaphore"), (name, "write")]
            assert state.waiters == ()
        shown = Counter((h.name, h.role) for h in await client.scan(""))
        assert shown == Counter((n, r) for n in names for r in ("lock", "semaphore", "write"))
        assert [h.name for h in await client.scan("a/w")] == ["a/write"] * 3
        assert "\0" not in "".join(h.name for h in await outside.scan(""))
        assert all([await engine_of(client).release(grant) for grant in grants])
        assert all([await mutex.release() for mutex in [*mutexes, above]])
        assert etcd.keys(f"{prefix}/") == []

    run(flavor, scenario)


def test_other_kinds_do_not_slow_a_mutex_down(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        grants = [await held(client, name, READ) for name in (prefix, f"{prefix}/below")]
        overheard = Overheard(client, monkeypatch)
        assert await (await client.lock(prefix, ttl=60).acquire()).release()
        assert overheard.methods == [requests.TXN] * 2
        assert all([await engine_of(client).release(grant) for grant in grants])
        assert await kept.release()

    run(flavor, scenario)


@pytest.mark.parametrize("share", [READ, of(READERS + 1)], ids=["read", "semaphore"])
def test_a_share_costs_two_requests_however_many_hold(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    async def scenario(lab: Lab) -> None:
        client, others = await lab.connect(etcd.url), await lab.connect(etcd.url)
        lengths = []
        for many in (0, READERS):
            grants = [await held(others, prefix, share) for _ in range(many)]
            await engine_of(client).release(await held(client, prefix, share))  # learns its slot
            overheard = Overheard(client, monkeypatch)
            assert await engine_of(client).release(await held(client, prefix, share))
            assert overheard.methods == [requests.TXN] * 2
            lengths.append(overheard.longest)
            monkeypatch.undo()
            for grant in grants:
                assert await engine_of(others).release(grant)
        assert lengths[1] <= lengths[0] + 8

    run(flavor, scenario)


def test_a_writer_reads_a_few_keys_however_many_read(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        client, others = await lab.connect(etcd.url), await lab.connect(etcd.url)
        grants = [await held(others, prefix, READ) for _ in range(READERS)]
        overheard = Overheard(client, monkeypatch)
        waiter = await Waiter(client, prefix, WRITE).join()
        assert isinstance(await waiter.engine.acquire(waiter.request), Busy)
        for grant in grants:
            assert await engine_of(others).release(grant)
        writer = await waiter.grant(lab)
        assert writer.fence > grants[-1].fence
        assert overheard.longest < 1000
        assert await engine_of(client).release(writer)

    run(flavor, scenario)


def test_a_crashed_reader_is_waited_for_alone(flavor: str, etcd: Etcd, prefix: str) -> None:
    """A writer waits for those who read on, and for a dead one until its lease ends."""

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(etcd.url) for _ in range(3)]
        first, dead = await held(clients[0], prefix, READ), await held(clients[1], prefix, READ)
        waiter = await Waiter(clients[2], prefix, WRITE).join()
        own = engine_of(clients[1])._own_keys.by_owner[dead.owner]
        etcd.ctl("lease", "revoke", own.lease.hex.decode())
        await lab.until(waiter.signal.is_set, "a look at the other reader")
        waiter.signal.clear()
        assert isinstance(await waiter.engine.acquire(waiter.request), Busy)
        assert isinstance((await engine_of(clients[0]).renew([first]))[0], Grant)
        assert not await engine_of(clients[1]).release(dead)
        assert await engine_of(clients[0]).release(first)
        assert await waiter.engine.release(await waiter.grant(lab))

    run(flavor, scenario)


@pytest.mark.parametrize("share", [WRITE, of(1)], ids=["write", "semaphore"])
def test_a_waiter_that_does_not_look_is_passed_over(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    """It was woken and does not answer, though its client lives on: after a ttl its key goes."""
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        grant = await held(client, prefix, share)
        kept = await client.lock(f"{prefix}kept", ttl=LEASE_S).acquire()  # on the same lease
        await Waiter(client, prefix, share, ttl=LEASE_S).join()
        second = await Waiter(other, prefix, share).join()
        assert await engine_of(client).release(grant)
        assert await second.engine.release(await second.grant(lab))
        kept.check()
        assert await kept.release()

    run(flavor, scenario)


def test_who_waited_long_has_the_highest_fence_of_its_slot(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """It came before another who had the slot and gave it back: the fence is that of the claim."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        engine, share = engine_of(client), of(2)
        first, second = await held(client, prefix, share), await held(client, prefix, share)
        waiters = [await Waiter(client, prefix, share).join() for _ in range(2)]
        assert await engine.release(second)
        early = await waiters[0].grant(lab)
        assert await engine.release(first)
        late = await waiters[1].grant(lab)
        assert early.share == share._replace(slot=1)
        assert late.share == share._replace(slot=0)
        assert first.fence < second.fence < early.fence < late.fence
        assert await engine.release(early)
        assert await engine.release(late)

    run(flavor, scenario)


def test_the_lowest_free_slot_is_taken_whatever_a_client_knows(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        ours = [await held(client, prefix, of(4)) for _ in range(2)]
        theirs = [await held(other, prefix, of(4)) for _ in range(2)]
        await refused(client, prefix, of(4))
        for grant in (theirs[1], ours[1], ours[0]):
            assert await engine_of(other).release(grant)
        slots = [(await held(who, prefix, of(4))).share for who in (other, client, other)]
        assert [share and share.slot for share in slots] == [0, 1, 3]

    run(flavor, scenario)


def test_a_limit_that_differs_is_seen_by_whoever_knows_its_slot(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """Neither a guess that was right before nor a place in the queue passes by other limits."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        grants = [await held(client, prefix, of(12)) for _ in range(2)]
        for grant in reversed(grants):
            assert await engine_of(client).release(grant)
        theirs = [await held(other, prefix, of(5)) for _ in range(5)]
        waiter = await Waiter(other, prefix, of(5)).join()
        for queue in (False, True):
            for limit in (1, 4, 6, 10, 12, 50):
                with pytest.raises(UsageError, match=f"limit=5,.*limit={limit} "):
                    await engine_of(client).acquire(wish(client, prefix, of(limit), queue=queue))
        for grant in theirs:
            assert await engine_of(other).release(grant)
        with pytest.raises(UsageError, match="limit=5,"):
            await engine_of(client).acquire(wish(client, prefix, of(12), queue=True))
        assert await engine_of(other).release(await waiter.grant(lab))
        assert await engine_of(client).release(await held(client, prefix, of(12)))

    run(flavor, scenario)


def test_fences_grow_through_a_restart(flavor: str, tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        fences: list[int] = []
        for _ in range(2):
            client = await lab.connect(server.url)
            for share in (of(1), WRITE, READ):
                grant = await held(client, "seat", share)
                fences.append(grant.fence)
                assert await engine_of(client).release(grant)
            server.stop()
            server.start()
        assert fences == sorted(set(fences))

    with Etcd() as server:
        run(flavor, scenario)


def lose_answers(
    client: aio.Client, monkeypatch: pytest.MonkeyPatch, name: str, *, carried_out: bool = True
) -> list[tuple[Any, ...]]:
    """Have the next transaction about a name go unanswered; return what was asked."""
    wire, lost = engine_of(client)._cluster.wire, list[tuple[Any, ...]]()
    call = wire.call

    async def losing(*arguments: Any) -> bytes:
        if lost or arguments[2] != requests.TXN or f"{name}\0".encode() not in arguments[3]:
            return await call(*arguments)
        lost.append(arguments)
        if carried_out:
            await call(*arguments)
        raise RpcError("UNAVAILABLE", "on its way")

    monkeypatch.setattr(wire, "call", losing)
    monkeypatch.setattr(wire, "leave", lambda *_: None)
    return lost


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("share", [READ, WRITE, of(3)], ids=["read", "write", "semaphore"])
def test_a_share_whose_answer_was_lost_is_found_again(
    flavor: str,
    etcd: Etcd,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    share: Share,
    carried_out: bool,
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        engine, request = engine_of(client), wish(client, prefix, share)
        await engine.release(await held(client, prefix, share))
        lose_answers(client, monkeypatch, prefix, carried_out=carried_out)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        grant = await engine.acquire(request)
        assert isinstance(grant, Grant)
        again = await engine.acquire(request)
        assert isinstance(again, Grant)
        assert (again.fence, again.share) == (grant.fence, grant.share)
        assert len((await client.inspect(prefix)).holders) == 1
        assert await engine.release(grant)
        assert (await client.inspect(prefix)).holders == ()

    run(flavor, scenario)


@pytest.mark.parametrize("ending", ["asked again", "withdrawn"])
@pytest.mark.parametrize("carried_out", [True, False])
def test_a_claim_whose_answer_was_lost_leaves_one_key(
    flavor: str,
    etcd: Etcd,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    carried_out: bool,
    ending: str,
) -> None:
    """The key in the queue is gone and the one in the slot is there, or the other way round."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        engine, grant = engine_of(client), await held(other, prefix, of(1))
        waiter = await Waiter(client, prefix, of(1)).join()
        assert await engine_of(other).release(grant)
        await lab.until(waiter.signal.is_set, "a push")
        heard = lose_claims(client, monkeypatch, carried_out)
        with pytest.raises((OutcomeUnknown, FencelockError)):
            await engine.acquire(waiter.request)
        assert heard
        if ending == "withdrawn":
            await engine.withdraw(waiter.request)
        else:
            claimed = await engine.acquire(waiter.request)
            assert isinstance(claimed, Grant)
            state = await client.inspect(prefix)
            assert (len(state.holders), len(state.waiters)) == (1, 0)
            assert await engine.release(claimed)
        assert await other.inspect(prefix) == fencelock.model.State(prefix)
        await wire_late(client, heard[0])
        assert await other.inspect(prefix) == fencelock.model.State(prefix)

    run(flavor, scenario)


def lose_claims(
    client: aio.Client, monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> list[tuple[Any, ...]]:
    """Have the next transaction that deletes a key and puts another go unanswered."""
    wire, lost = engine_of(client)._cluster.wire, list[tuple[Any, ...]]()
    call = wire.call

    async def losing(*arguments: Any) -> bytes:
        claims = b"/queue/" in arguments[3] and b"/slot/" in arguments[3]
        if lost or not claims or b'"owner"' not in arguments[3]:
            return await call(*arguments)
        lost.append(arguments)
        if carried_out:
            await call(*arguments)
        raise RpcError("UNAVAILABLE", "on its way")

    monkeypatch.setattr(wire, "call", losing)
    monkeypatch.setattr(wire, "leave", lambda *_: None)
    return lost


async def until_free(lab: Lab, client: aio.Client, name: str) -> None:
    """Wait until nobody holds a name."""
    give_up = clock.now() + SOON
    while (await client.inspect(name)).holders:
        assert clock.now() < give_up, f"{name} is still held"
        await lab.let_pass(0.01)


async def wire_late(client: aio.Client, arguments: tuple[Any, ...]) -> None:
    """Carry a request out that was thought to be lost."""
    await engine_of(client)._cluster.wire.call(*arguments)


def test_a_slot_that_is_taken_late_is_given_back(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that had no answer was withdrawn, and only then does etcd carry it out."""
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        request = wish(client, prefix, of(2))
        (late,) = [lose_answers(client, monkeypatch, prefix, carried_out=False)]
        with pytest.raises(OutcomeUnknown):
            await engine_of(client).acquire(request)
        await engine_of(client).withdraw(request)
        await wire_late(client, late[0])
        await engine_of(client).release(await held(client, prefix, of(2)))
        await until_free(lab, client, prefix)
        kept.check()
        assert await kept.release()

    run(flavor, scenario)


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_downgrade_without_an_answer_keeps_the_lock_and_can_be_repeated(
    flavor: str,
    etcd: Etcd,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    carried_out: bool,
) -> None:
    """And a key whose value may have been rewritten goes when its time is over."""
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        engine, request = engine_of(client), wish(client, prefix, WRITE)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        writer = await engine.acquire(request)
        assert isinstance(writer, Grant)
        wire = engine._cluster.wire
        call, lost = wire.call, list[bytes]()

        async def losing(*arguments: Any) -> bytes:
            if lost or b"downgraded" not in arguments[3]:
                return await call(*arguments)
            lost.append(arguments[3])
            if carried_out:
                await call(*arguments)
            raise RpcError("UNAVAILABLE", "on its way")

        monkeypatch.setattr(wire, "call", losing)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request._replace(share=READ))
        (left,) = await engine.renew([writer])
        assert isinstance(left, Grant)
        own = engine._own_keys.by_owner[writer.owner]
        own.until = 0.0  # nobody renews it
        await until_free(lab, other, prefix)
        kept.check()
        assert await kept.release()

    run(flavor, scenario)


def test_a_downgraded_lock_is_moved_and_released_by_another_process(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        engine, request = engine_of(client), wish(client, prefix, WRITE)
        writer = await engine.acquire(request)
        assert isinstance(writer, Grant)
        reader = await engine.acquire(request._replace(share=READ))
        assert isinstance(reader, Grant)
        assert (reader.fence, reader.share) == (writer.fence, READ)
        beside = await held(other, prefix, READ)
        assert beside.fence > reader.fence
        await refused(other, prefix, WRITE)
        (moved,) = await engine_of(other).renew([reader._replace(ttl=90)])
        assert isinstance(moved, Grant)
        assert (moved.fence, moved.share, moved.ttl) == (reader.fence, READ, 90)
        roles = [holding.role for holding in (await client.inspect(prefix)).holders]
        assert roles == ["read", "read"]
        assert await engine_of(other).release(beside)
        await refused(client, prefix, WRITE)
        assert await engine_of(other).release(moved)
        assert not await engine.release(reader)
        assert await engine.release(await held(client, prefix, WRITE))

    run(flavor, scenario)


def test_slots_beyond_those_that_are_compared_are_filled_from_below(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_keys, "PAGE", 10)
    monkeypatch.setattr(share_keys, "TAKEN_MAX", 12)
    limit = 35

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        grants = [await held(client, prefix, of(limit)) for _ in range(limit)]
        assert [grant.share and grant.share.slot for grant in grants] == [*range(limit)]
        await refused(client, prefix, of(limit))
        for slot in (limit - 1, 25):
            assert await engine_of(client).release(grants[slot])
        for slot in (25, limit - 1):
            again = await held(client, prefix, of(limit))
            assert again.share == of(limit)._replace(slot=slot)

    run(flavor, scenario)


def test_the_lowest_free_slot_is_told_by_the_keys() -> None:
    def taken(*slots: int) -> list[replies.KeyValue]:
        return [replies.KeyValue(b"room/4/slot/%06d/7f" % slot, 1, b"", 7) for slot in slots]

    assert lowest_free([]) == 0
    assert lowest_free(taken(0, 1, 2)) == 3
    assert lowest_free(taken(0, 2, 3)) == 1
    assert lowest_free(taken(1)) == 0
    assert lowest_free(taken(0, 0, 1)) == 2
    assert lowest_free(taken(500, 501), 500) == 502


PROCESSES, ENTRIES, SLOTS = 4, 25, 2

STORM = """
import os, random, sys
import fencelock

url, name, log, count, limit = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
out = os.open(log, os.O_WRONLY | os.O_APPEND)
client = fencelock.connect(url)
for _ in range(count):
    if random.random() < 0.4:
        lock, kind = client.semaphore(name, limit=limit, ttl=30), "slot"
    elif random.random() < 0.6:
        lock, kind = client.rwlock(name, ttl=30).read(), "read"
    else:
        lock, kind = client.rwlock(name, ttl=30).write(), "write"
    with lock as lease:
        os.write(out, f"in {kind} {lease.slot} {lease.fence}\\n".encode())
        if kind == "write" and random.random() < 0.5:
            os.write(out, b"out write None 0\\n" + f"in read None {lease.fence}\\n".encode())
            lease.downgrade()
            kind = "read"
        os.write(out, f"out {kind} {lease.slot} {lease.fence}\\n".encode())
client.close()
"""


def test_processes_in_a_storm_never_share_what_they_must_not(
    etcd: Etcd, prefix: str, tmp_path: Path
) -> None:
    """At most N hold a semaphore, each its own slot; nobody reads or writes beside a writer."""
    log = tmp_path / "log"
    log.touch()
    words = [etcd.url, prefix, str(log), str(ENTRIES), str(SLOTS)]
    crew = [subprocess.Popen([sys.executable, "-c", STORM, *words]) for _ in range(PROCESSES)]
    try:
        assert [process.wait(240) for process in crew] == [0] * PROCESSES
    finally:
        for process in crew:
            process.kill()
            process.wait()
    inside: Counter[str] = Counter()
    slots: set[str] = set()
    highest: dict[str, int] = {}
    for line in log.read_text().splitlines():
        way, kind, slot, fence = line.split()
        if way == "out":
            inside[kind] -= 1
            slots.discard(slot)
            continue
        inside[kind] += 1
        assert inside["write"] == 0 or inside["write"] + inside["read"] == 1, line
        assert inside["slot"] <= SLOTS, line
        if kind == "slot":
            assert slot not in slots, line
            assert int(fence) > highest.get(slot, 0), line
            slots.add(slot)
            highest[slot] = int(fence)
    assert +inside == Counter()
    with fencelock.connect(etcd.url) as client:
        assert client.inspect(prefix) == fencelock.model.State(prefix)
