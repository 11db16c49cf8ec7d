"""Semaphores and read/write locks: what the conformance checks cannot see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fencelock import OutcomeUnknown, Unavailable, UsageError, aio
from fencelock.model import Busy, Gone, Grant, Share
from fencelock.worlds import clock
from tests.engines.zookeeper.contenders import record_requests
from tests.engines.zookeeper.shares import READ, TWO, WRITE, engine_of, hold, is_busy, take, wish
from tests.engines.zookeeper.tree import contenders, folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.zookeeper import ZooKeeper

T = TypeVar("T")

TRICKY = [
    "a", "a/leases", "a/locks", "a/leases/x", "a%2Fleases", "%rwlock/a", "%semaphore/a", "%rwlock",
    "%semaphore", "%memory/a", "lock-0000000001", "a/__READ__0000000001", "A", "a ", ".", "..", "%",
    "a/-b", "zookeeper",
]  # fmt: skip
CROWD = Share("semaphore", 1, 65)
COSTS = {
    READ: ["Create2", "GetChildren"],
    CROWD: ["Create2", "GetChildren", "GetChildren", "Transaction"],
}


async def insist(lab: Lab, call: Callable[[], Awaitable[T]]) -> T:
    """Ask again until a connection that has just failed is replaced."""
    give_up = clock.now() + SOON
    while True:
        try:
            return await call()
        except (OutcomeUnknown, Unavailable):
            assert clock.now() < give_up
            await lab.let_pass(0.05)


async def watched(lab: Lab, client: aio.Client) -> list[str]:
    """The nodes that a client watches, once it does."""
    watches = engine_of(client)._connection._session._watches
    await lab.until(lambda: watches, "a waiter that watches somebody")
    return list(watches)


def nodes(kazoo: Any, url: str, where: str) -> list[str]:
    return sorted(contenders(kazoo, url, where))


def test_names_and_kinds_have_nothing_in_common(server: ZooKeeper) -> None:
    """Every name of every kind is taken at once, and each is released by itself."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.fresh_url())
        engine, one = engine_of(client), Share("semaphore", 1, 1)
        kinds = [None, WRITE, one]
        grants = [await take(client, kind, name) for name in TRICKY for kind in kinds]
        assert {holding.name for holding in await client.scan("")} == {*TRICKY}
        assert len(await client.scan("")) == len(grants)
        for name in TRICKY:
            roles = [holding.role for holding in await client.holders(name)]
            assert roles == ["lock", "semaphore", "write"], name
        for grant in grants:
            other = READ if grant.share is None else None
            (answer,) = await engine.renew([grant._replace(share=other)])
            assert isinstance(answer, Gone), "renewed as another kind"
            await engine.withdraw(wish(other, grant.name)._replace(owner=grant.owner))
        for grant in grants:
            assert await engine.release(grant) is True
        assert await client.scan("") == []

    run("sync", scenario)


def test_no_name_lies_within_the_folder_of_another(server: ZooKeeper, kazoo: Any) -> None:
    """Curator takes all children of a read/write lock for contenders, and counts all leases."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        for name in ("a", "a/-b", "a/b/c"):
            await take(client, READ, name)
        for name in ("a", "a/leases", "a/leases/b"):
            await take(client, TWO, name)
        assert len(nodes(kazoo, url, "%rwlock/a")) == 1
        assert len(nodes(kazoo, url, "%semaphore/a/leases")) == 1

    run("sync", scenario)


def test_a_share_costs_as_many_requests_among_many_holders(
    flavor: str, server: ZooKeeper, proxy: Proxy
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, crowd = await lab.connect(through(proxy, url)), await lab.connect(url)
        engine = engine_of(client)
        sent = record_requests(client)
        for count in (1, 63):
            for _ in range(count):
                await take(crowd, READ)
                await take(crowd, CROWD)
            for share, cost in COSTS.items():
                while True:
                    sent.clear()
                    proxy.count_from_now()
                    grant = await take(client, share)
                    if "_CreateContainer" not in sent:
                        break
                    assert await engine.release(grant)  # the server had removed an empty folder
                assert sent == cost
                assert proxy.requests == (1 if share is READ else 2)
                assert await engine.release(grant)
                assert sent == [*cost, "Delete"]

    run(flavor, scenario)


def test_a_writer_that_leaves_wakes_the_readers_behind_it_and_nobody_else(
    flavor: str, server: ZooKeeper
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(url)
        first = await take(holder, WRITE)
        clients, jobs = [await lab.connect(url) for _ in range(5)], []
        for count, (client, share) in enumerate(
            zip(clients, (READ, READ, WRITE, READ, WRITE), strict=True), 1
        ):
            jobs.append(lab.start(hold(client, wish(share))))
            await lab.until_queued(holder, "seat", count)
            assert len(await watched(lab, client)) == 1
        sent = [record_requests(client) for client in clients]
        assert await engine_of(holder).release(first)
        readers = [await job.result() for job in jobs[:2]]
        assert sent == [["GetChildren"], ["GetChildren"], [], [], []]
        assert await engine_of(clients[0]).release(readers[0])
        await lab.let_pass(0.1)  # a wrong grant would come at once
        assert sent[2:] == [[], [], []], "the writer waits for the last of the readers alone"
        assert await engine_of(clients[1]).release(readers[1])
        assert (await jobs[2].result()).fence > readers[1].fence
        assert sent[3:] == [[], []]

    run(flavor, scenario)


def test_only_the_first_in_the_queue_of_a_semaphore_watches_the_leases(
    flavor: str, server: ZooKeeper
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(url)
        held = [await take(holder, TWO) for _ in range(2)]
        clients, jobs = [await lab.connect(url) for _ in range(3)], []
        for count, client in enumerate(clients, 1):
            jobs.append(lab.start(hold(client, wish(TWO))))
            await lab.until_queued(holder, "seat", count)
            (path,) = await watched(lab, client)
            assert path.endswith("/leases") is (count == 1)
        sent = record_requests(clients[2])
        assert await engine_of(holder).release(held[1])
        heir = await jobs[0].result()
        assert heir.share == TWO._replace(slot=1)
        assert heir.fence > held[1].fence
        await lab.until_queued(holder, "seat", 2)
        assert sent == []
        for grant in (heir, held[0]):
            await engine_of(holder).release(grant)
        slots = {(await job.result()).share.slot for job in jobs[1:]}  # type: ignore[union-attr]
        assert slots == {0, 1}

    run(flavor, scenario)


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_downgrade_that_is_not_answered_is_done_and_known(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """The node has another name then: it is found, renewed and released all the same."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(through(proxy, url), session=4.0), await lab.connect(url)
        engine = engine_of(client)
        grant = await take(client, WRITE)
        proxy.lose_next_reply(b"__READ__", then_cut=then_cut)
        with pytest.raises(Exception, match="ZooKeeper"):
            await engine.acquire(wish(READ)._replace(owner=grant.owner))
        assert proxy.lost == 1
        (renewed,) = await insist(lab, lambda: engine.renew([grant]))
        assert renewed.fence == grant.fence
        (shown,) = await rival.holders("seat")
        assert (shown.role, shown.fence) == ("read", grant.fence)
        again = await engine.acquire(wish(READ)._replace(owner=grant.owner))
        assert (again.fence, again.share) == (grant.fence, READ)
        assert await is_busy(rival, WRITE)
        assert await engine.release(grant) is True
        assert nodes(kazoo, url, "%rwlock/seat") == []

    run(flavor, scenario)


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_slot_that_was_not_answered_is_taken_once(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=20.0)
        engine, request = engine_of(client), wish(TWO)
        await engine.release(await take(client, TWO))
        proxy.lose_next_reply(b"-lease-", then_cut=then_cut)
        with pytest.raises(Exception, match="ZooKeeper"):
            await engine.acquire(request)
        grant = await insist(lab, lambda: engine.acquire(request))
        assert grant.share == TWO._replace(slot=0)
        assert len(nodes(kazoo, url, "%semaphore/seat/leases")) == 1
        assert nodes(kazoo, url, "%semaphore/seat/locks") == []
        (shown,) = await client.holders("seat")
        assert shown.fence == grant.fence
        second = wish(TWO)
        proxy.lose_next_reply(b"-lease-", then_cut=then_cut)
        with pytest.raises(Exception, match="ZooKeeper"):
            await engine.acquire(second)
        await insist(lab, lambda: engine.withdraw(second))
        assert len(nodes(kazoo, url, "%semaphore/seat/leases")) == 1
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_one_owner_through_two_clients_takes_one_share(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(url), await lab.connect(url)
        for share in (READ, WRITE, TWO):
            request = wish(share, f"seat-{share.kind}-{share.units}")
            first = await engine_of(one).acquire(request)
            again = await engine_of(other).acquire(request)
            assert (again.fence, again.share) == (first.fence, first.share)
            (shown,) = await one.holders(request.name)
            assert shown.fence == first.fence
            (renewed,) = await engine_of(other).renew([again])
            assert isinstance(renewed, Grant)
            assert await engine_of(other).release(again) is True

    run(flavor, scenario)


HOLDER = """
import sys, fencelock
client = fencelock.connect(sys.argv[1], session=1.0)
lease = client.rwlock("seat").read().acquire()
slot = client.semaphore("seat", limit=2).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def started_holder(url: str) -> subprocess.Popen[bytes]:
    """A process that reads, and has a slot."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_killed_reader_leaves_the_other_readers_alone(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()
    holders: list[subprocess.Popen[bytes]] = []

    async def scenario(lab: Lab) -> None:
        client, writes, waits = [await lab.connect(url) for _ in range(3)]
        ours, slot = await take(client, READ), await take(client, TWO)
        holders.append(started_holder(url))
        writer = lab.start(hold(writes, wish(WRITE)))
        heir = lab.start(hold(waits, wish(TWO)))
        await lab.until_queued(client, "seat", 2)
        await watched(lab, writes)  # the last reader, which is the one that is killed
        sent = record_requests(writes)
        os.kill(holders[0].pid, signal.SIGKILL)
        assert (await heir.result()).share == TWO._replace(slot=1)
        await lab.until(lambda: writer.done() or "GetData" in sent, "a writer that waits for us")
        assert not writer.done()
        renewed = await engine_of(client).renew([ours, slot])
        assert [one.share for one in renewed] == [ours.share, slot.share]
        assert await engine_of(client).release(ours)
        await writer.result()

    try:
        run(flavor, scenario)
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_who_is_first_and_does_not_come_loses_its_node(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """Woken and not asked for, its node goes when its ttl is over: the next has the slot."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        one = Share("semaphore", 1, 1)
        held = await take(client, one)
        lapsed = wish(one, ttl=0.5)._replace(queue=True)
        await engine_of(client).watch(lapsed, engine_of(client).world.signal())
        assert isinstance(await engine_of(client).acquire(lapsed), Busy)
        waiter = lab.start(hold(rival, wish(one)))
        await lab.until_queued(client, "seat", 2)
        await engine_of(client).release(held)
        assert (await waiter.result()).fence > held.fence
        assert nodes(kazoo, url, "%semaphore/seat/locks") == []

    run(flavor, scenario)


def test_fences_grow_when_the_folders_are_made_anew(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """The server removes unused folders; then sequence numbers begin at 0 again."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        engine = engine_of(client)
        fences: dict[Share, list[int]] = {TWO: [], READ: [], WRITE: []}
        kinds = folder(url, "%semaphore"), folder(url, "%rwlock")
        for _ in range(2):
            for share, known in fences.items():
                for _ in range(2):
                    grant = await take(client, share)
                    known.append(grant.fence)
                    await engine.release(grant)
            await lab.until(lambda: not any(map(kazoo.exists, kinds)), "no folders")
        for known in fences.values():
            assert known == sorted({*known})

    run(flavor, scenario)


def test_another_limit_is_refused_also_behind_one_who_waits(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        held = [await take(client, TWO) for _ in range(2)]
        waiter = lab.start(hold(client, wish(TWO)))
        await lab.until_queued(client, "seat", 1)
        for grant in held:
            kazoo.delete(engine_of(client)._nodes[f"semaphore/{grant.owner}"].path)
        await waiter.result()
        third = Share("semaphore", 1, 3)
        for request in (wish(third), wish(third)._replace(queue=True)):
            with pytest.raises(UsageError, match=r"limit=2.*limit=3"):
                await engine_of(rival).acquire(request)
        assert nodes(kazoo, url, "%semaphore/seat/locks") == []
        assert (await client.inspect("seat")).limit == 2

    run(flavor, scenario)


def test_all_holders_are_told_why_they_were_revoked(flavor: str, server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        url = server.fresh_url()
        client, admin = await lab.connect(url), await lab.connect(url)
        grants = [await take(client, share) for share in (*[READ] * 120, TWO, TWO)]
        assert await admin.revoke("seat", "maintenance") is True
        answers = await engine_of(client).renew(grants)
        assert {*answers} == {Gone("revoked", "maintenance")}
        assert await admin.revoke("seat", "maintenance") is False

    run(flavor, scenario)


def test_unused_folders_go_where_the_server_has_no_containers(
    flavor: str, server: ZooKeeper, kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock.engines.zookeeper.deletion.EMPTY_S", 0.2)
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        engine_of(client)._folders.containers = False
        for share in (READ, TWO):
            await engine_of(client).release(await take(client, share))
        gone = folder(url, "%semaphore/seat"), folder(url, "%rwlock/seat")
        await lab.until(lambda: not any(map(kazoo.exists, gone)), "no folders")

    run(flavor, scenario)


STORM = """
import os, sys, time, fencelock
url, room, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = fencelock.connect(url, session=30.0)
semaphore = client.semaphore("seat", limit=2, timeout=60)
catalog = client.rwlock("seat", timeout=60)

def enter(name):
    os.close(os.open(f"{room}/{name}", os.O_CREAT | os.O_EXCL))

def work():
    time.sleep(0.003)  # what a name is held for: long enough that others come to wait

def present(kind):
    return [name for name in os.listdir(room) if name.startswith(kind)]

fences = {}
for turn in range(turns):
    with semaphore as lease:
        enter(f"slot-{lease.slot}")  # fails when somebody else has it
        work()
        assert len(present("slot")) <= 2
        assert lease.fence > fences.get(lease.slot, 0)
        fences[lease.slot] = lease.fence
        os.unlink(f"{room}/slot-{lease.slot}")
    with catalog.write() if turn % 3 == os.getpid() % 3 else catalog.read() as lease:
        if lease.role == "write":
            enter("writer")
            work()
            assert not present("reader"), present("reader")
            os.unlink(f"{room}/writer")
            lease.downgrade()
        enter(f"reader-{os.getpid()}")
        work()
        assert not present("writer")
        os.unlink(f"{room}/reader-{os.getpid()}")
client.close()
"""


def test_processes_that_contend_never_meet(server: ZooKeeper, tmp_path: Path) -> None:
    """At most two have the semaphore, each with its own slot; nobody reads beside a writer."""
    command = [sys.executable, "-W", "error", "-c", STORM, server.fresh_url(), str(tmp_path), "25"]
    crowd = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1].decode() for process in crowd]
    assert errors == [""] * len(crowd)
    assert [process.returncode for process in crowd] == [0] * len(crowd)
