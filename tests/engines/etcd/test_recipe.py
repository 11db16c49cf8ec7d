"""What can go wrong with this recipe in particular: leases, keys, watches, late answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencelock import Expired, LeaseLost, Revoked, aio
from fencelock.engines.etcd import lease as lease_module
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.messages import requests
from fencelock.engines.etcd.own_key import Lease
from fencelock.model import Busy, Request
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.etcd import Etcd

TRIES = 1000


def engine_of(client: aio.Client) -> EtcdEngine:
    engine = client._core.engine
    assert isinstance(engine, EtcdEngine)
    return engine


def lease_of(etcd: Etcd, key: str) -> str:
    """The id of the lease that a key is on, in hex."""
    done = etcd.ctl("get", key, "-w", "fields")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('"Lease"')]
    return f"{int(line.rpartition(' ')[2]):x}"


def test_a_waiter_whose_lease_ended_is_not_granted_without_a_key(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """H52: its key is gone with its lease. It queues again, and holds only what is there."""

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(etcd.url), await lab.connect(etcd.url)
        holder = await client.lock(prefix, ttl=60).acquire()
        waiting = lab.start(rival.lock(prefix, ttl=60).acquire(timeout=30))
        await lab.until_queued(client, prefix, 1)
        (key,) = [key for key in etcd.keys(f"{prefix}/") if key != key_of(client, holder)]
        etcd.ctl("lease", "revoke", lease_of(etcd, key))
        assert etcd.keys(f"{prefix}/") == [key_of(client, holder)]
        assert await holder.release() is True
        lease = await waiting.result(30)
        assert etcd.keys(f"{prefix}/") == [key_of(rival, lease)]
        assert await client.lock(prefix).try_acquire() is None
        assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("what", ["lock", "semaphore", "reader", "writer", "several"])
def test_an_acquire_whose_lease_was_revoked_goes_on_with_another(
    what: str, flavor: str, etcd: Etcd, prefix: str
) -> None:
    """The client had it ready, and learns of its end from the answer to the put."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        first = await client.lock(f"{prefix}first", ttl=60).acquire()
        etcd.ctl("lease", "revoke", lease_of(etcd, key_of(client, first)))
        locks: dict[str, Callable[[], Any]] = {
            "lock": lambda: client.lock(prefix, ttl=60),
            "semaphore": lambda: client.semaphore(prefix, limit=2, ttl=60),
            "reader": lambda: client.rwlock(prefix, ttl=60).read(),
            "writer": lambda: client.rwlock(prefix, ttl=60).write(),
            "several": lambda: client.locks(f"{prefix}a", f"{prefix}b", ttl=60),
        }
        taken = await locks[what]().acquire(timeout=0)
        taken.check()
        await taken.release()
        assert await first.release() is False

    run(flavor, scenario)


def key_of(client: aio.Client, lease: aio.Lease) -> str:
    """The key of a lease, as its own client knows it."""
    return engine_of(client)._own_keys.by_owner[lease._hold.grant.owner].key.decode()


def test_a_holder_whose_lease_ended_is_told(flavor: str, etcd: Etcd, prefix: str) -> None:
    """H47: all locks on the lease are lost, and the next ones get a new lease."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        leases = [await client.lock(f"{prefix}{n}", ttl=60).acquire() for n in range(3)]
        etcd.ctl("lease", "revoke", lease_of(etcd, key_of(client, leases[0])))
        for lease in leases:
            make_due(lease)
            assert await lease.lost.wait(SOON)
            with pytest.raises(Expired):
                lease.check()
            assert await lease.release() is False
        async with client.lock(f"{prefix}0", ttl=60) as again:
            assert again.fence > leases[0].fence

    run(flavor, scenario)


def test_a_holder_whose_key_was_deleted_is_told(flavor: str, etcd: Etcd, prefix: str) -> None:
    """H56: by an operator, while others on the same lease go on."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        told: list[LeaseLost] = []
        lease = await client.lock(prefix, ttl=60, on_lost=told.append).acquire()
        other = await client.lock(f"{prefix}other", ttl=60).acquire()
        etcd.ctl("del", key_of(client, lease))
        make_due(lease)
        assert await lease.lost.wait(SOON)
        await lab.until(lambda: told, "on_lost")
        assert isinstance(told[0], Revoked)
        other.check()
        assert await other.release() is True

    run(flavor, scenario)


def test_a_waiter_whose_key_was_deleted_queues_again(flavor: str, etcd: Etcd, prefix: str) -> None:
    """H30: the others keep their order, and nobody waits for one that is not there."""

    async def scenario(lab: Lab) -> None:
        client, order = await lab.connect(etcd.url), list[int]()

        async def take_turn(number: int) -> None:
            async with client.lock(prefix, ttl=60, timeout=30, meta={"number": number}):
                order.append(number)

        holder = await client.lock(prefix, ttl=60).acquire()
        jobs = []
        for number in range(5):
            jobs.append(lab.start(take_turn(number)))
            await lab.until_queued(client, prefix, number + 1)
        waiting = [key for key in etcd.keys(f"{prefix}/") if key != key_of(client, holder)]
        numbers = {key: etcd.ctl("get", "--print-value-only", key).stdout for key in waiting}
        (middle,) = [key for key, said in numbers.items() if '"number": 2' in said]
        etcd.ctl("del", middle)
        await holder.release()
        for job in jobs:
            await job.result(30)
        assert [number for number in order if number != 2] == [0, 1, 3, 4]
        assert sorted(order) == [0, 1, 2, 3, 4]

    run(flavor, scenario)


def test_a_release_between_looking_and_watching_is_not_missed(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H53: the watch begins behind the revision that was read, not when it arrives."""
    monkeypatch.setattr("fencelock.engines.etcd.engine.LOOK_S", 60.0)

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        world = client._core.world
        holder = await other.lock(prefix, ttl=60).acquire()
        request = Request(prefix, world.owner(), 60, waits=True)
        answer = await engine_of(client).acquire(request)
        assert isinstance(answer, Busy)
        assert answer.queued
        assert await holder.release() is True
        signal = world.signal()
        await engine_of(client).watch(request, signal)
        assert await world.wait(signal, world.now() + 10)
        await engine_of(client).unwatch(request)
        await engine_of(client).withdraw(request)

    run(flavor, scenario)


def test_a_thousand_failed_tries_leave_nothing_behind(flavor: str, prefix: str) -> None:
    """H55: one lease for all of them, no key, and nothing at all once the client is closed."""
    with Etcd() as etcd:

        async def scenario(lab: Lab) -> None:
            client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
            holder = await other.lock(prefix, ttl=60).acquire()
            lock = client.lock(prefix, ttl=60)
            for number in range(TRIES):
                assert await lock.try_acquire(timeout=0 if number % 10 else 0.001) is None
            assert len(etcd.keys(f"{prefix}/")) == 1
            assert len(etcd.leases()) == 2
            await holder.release()

        run(flavor, scenario)
        assert etcd.keys() == []
        assert etcd.leases() == []


def test_an_answer_that_never_came_leaves_no_orphan(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H13: the request was withdrawn, and only then does etcd carry it out.

    The client lives on and keeps its lease, so nobody but the client can take that key away.
    """
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        engine, late = engine_of(client), list[tuple[Any, ...]]()
        wire = engine._cluster.wire
        call = wire.call

        async def delayed(*arguments: Any) -> bytes:
            if f"{prefix}0".encode() in arguments[3]:  # the end of the range that joining compares
                late.append(arguments)
                raise RpcError("DEADLINE_EXCEEDED", "on its way")
            return await call(*arguments)

        monkeypatch.setattr(wire, "call", delayed)
        monkeypatch.setattr(wire, "leave", lambda *_: None)
        with pytest.raises(Exception, match="on its way"):
            await client.lock(prefix, ttl=60).acquire(timeout=0)
        monkeypatch.undo()
        monkeypatch.setattr(lease_module, "NAP_S", 0.05)
        assert len(late) == 3
        await call(*late[0])
        await lab.until(lambda: etcd.keys(f"{prefix}/") == [], "the late key to be taken away")
        kept.check()
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_lock_that_is_not_renewed_ends_though_its_lease_is_kept(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """Locks of one ttl share a lease: what keeps one must not keep another."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=4).acquire()
        left = await client.lock(prefix, ttl=4, renew=False).acquire()
        taken = await other.lock(prefix, ttl=60).acquire(timeout=SOON)
        assert not left
        assert taken.fence > left.fence
        kept.check()
        assert await taken.release() is True
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_ttl_is_rounded_up_and_told(flavor: str, etcd: Etcd, prefix: str) -> None:
    """etcd counts whole seconds, and no fewer than two by default."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        for asked, given in ((0.25, 2), (2, 2), (7.2, 8)):
            async with client.lock(prefix, ttl=asked) as lease:
                assert lease.ttl == given
                assert lease.remaining() <= given
                (holding,) = await client.holders(prefix)
                assert holding.ttl == given

    run(flavor, scenario)


def test_locks_of_one_ttl_share_a_lease_and_others_do_not(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        ttls = (30, 29.5, 60, 60, 2)
        held = [await client.lock(f"{prefix}{n}", ttl=t).acquire() for n, t in enumerate(ttls)]
        ids = [lease_of(etcd, key_of(client, lease)) for lease in held]
        assert ids[0] == ids[1]
        assert ids[2] == ids[3]
        assert len({*ids}) == 3
        for lease in held:
            await lease.release()

    run(flavor, scenario)


def test_keys_are_used_again(flavor: str, etcd: Etcd, prefix: str) -> None:
    """etcd keeps deleted keys in its index until it is compacted: many would make it slow."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        keys = set()
        for _ in range(20):
            async with client.lock(prefix, ttl=60) as lease:
                keys.add(key_of(client, lease))
        (key,) = keys
        assert key == f"{prefix}/{lease_of_client(client)}"  # as in the recipe

    run(flavor, scenario)


def lease_of_client(client: aio.Client) -> str:
    (lease,) = engine_of(client)._leases._all
    return f"{lease.id:x}"


def test_two_waiters_of_one_client_are_two_contenders(flavor: str, etcd: Etcd, prefix: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        holder = await client.lock(prefix, ttl=60).acquire()
        jobs = [lab.start(client.lock(prefix, ttl=60).acquire(timeout=10)) for _ in range(2)]
        await lab.until_queued(client, prefix, 2)
        mine = lease_of_client(client)
        keys = [f"{prefix}/{mine}", f"{prefix}/{mine}-1", f"{prefix}/{mine}-2"]
        assert sorted(etcd.keys(f"{prefix}/")) == keys
        await holder.release()
        for _ in range(2):
            await lab.until(lambda: any(job.done() for job in jobs), "a grant")
            (done,) = [job for job in jobs if job.done()]
            jobs.remove(done)
            await (await done.result()).release()

    run(flavor, scenario)


def test_a_late_request_does_not_bring_a_released_lock_back(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H13: the first try had no answer, the second was granted, and then the first arrives."""
    monkeypatch.setattr(lease_module, "NAP_S", 0.05)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        wire, late = engine_of(client)._cluster.wire, list[tuple[Any, ...]]()
        call = wire.call

        async def delayed(*arguments: Any) -> bytes:
            if not late and f"{prefix}0".encode() in arguments[3]:
                late.append(arguments)
                raise RpcError("UNAVAILABLE", "Socket closed")
            return await call(*arguments)

        monkeypatch.setattr(wire, "call", delayed)
        lease = await client.lock(prefix, ttl=60).acquire()
        assert await lease.release() is True
        await call(*late[0])
        assert len(etcd.keys(f"{prefix}/")) <= 1
        await lab.until(lambda: etcd.keys(f"{prefix}/") == [], "the late key to be taken away")
        kept.check()
        async with client.lock(prefix, ttl=60) as again:
            await lab.let_pass(0.2)
            assert again.fence > lease.fence
            again.check()
            await again.renew()
        await kept.release()

    run(flavor, scenario)


def test_an_extension_counts_only_after_the_same_member_has_proved_itself() -> None:
    """H51, H54: a leader that was replaced and does not know it still answers keep-alives."""
    lease = Lease(1, 10.0, 100.0)
    assert lease.ends_at == 110.0
    lease.extended(105.0, 3)
    assert lease.ends_at == 110.0
    assert lease.confirm(4, lease.extension) is False
    assert lease.ends_at == 110.0
    assert lease.confirm(3, lease.extension) is True
    assert lease.ends_at == 115.0
    assert lease.confirmed_in == 3
    lease.extended(107.0, 3)
    assert lease.confirmed_in != 3, "the next extension is to be proved again"
    assert lease.ends_at == 115.0
    assert lease.confirm(3, lease.extension) is True
    assert lease.ends_at == 117.0
    assert lease.valid_until < lease.ends_at


def test_a_request_proves_no_extension_that_came_after_it_was_sent() -> None:
    """H54: another thread extends the lease while the answer to our request is under way."""
    lease = Lease(1, 10.0, 100.0)
    lease.extended(103.0, 3)
    sent_after = lease.extension
    lease.extended(106.0, 3)
    assert lease.confirm(3, sent_after) is True
    assert lease.ends_at == 113.0, "only the extension that the request came after"
    assert lease.confirmed_in != 3, "the newer one is still to be proved"
    assert lease.confirm(3, lease.extension) is True
    assert lease.ends_at == 116.0


def test_a_keep_alive_alone_does_not_keep_a_lease(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H54: keep-alives are answered, and nothing that needs a majority is: the lease is lost."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        lease = await client.lock(prefix, ttl=2).acquire()
        wire, kept_alive = engine_of(client)._cluster.wire, list[str]()
        call = wire.call

        async def cut_off(*arguments: Any) -> bytes:
            if arguments[2] == requests.LEASE_KEEP_ALIVE:
                kept_alive.append("")
                return await call(*arguments)
            raise RpcError("DEADLINE_EXCEEDED", "no majority")

        monkeypatch.setattr(wire, "call", cut_off)
        make_due(lease)
        assert await lease.lost.wait(SOON)
        assert kept_alive
        monkeypatch.undo()
        await lease.release()

    run(flavor, scenario)


def test_a_release_leaves_a_key_alone_that_was_made_anew(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """Release is conditioned on the create revision, not on the key."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        lease = await client.lock(prefix, ttl=60).acquire()
        key = key_of(client, lease)
        etcd.ctl("del", key)
        etcd.ctl("put", key, "another's")
        assert await lease.release() is False
        assert etcd.keys(f"{prefix}/") == [key]
        etcd.ctl("del", key)

    run(flavor, scenario)
