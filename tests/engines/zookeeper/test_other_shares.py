"""kazoo's own ReadLock and WriteLock and Curator's recipes share names with ours."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from tests.engines.zookeeper import curator
from tests.engines.zookeeper.shares import READ, TWO, WRITE, engine_of, hold, is_busy, take, wish
from tests.engines.zookeeper.tree import folder
from tests.faults.flavors import Lab, run
from tests.servers.zookeeper import ZooKeeper

READERS_WAIT_FOR, WRITERS_WAIT_FOR = ["__WRIT__"], ["__READ__", "__WRIT__"]
NODES = {
    "read": r"_c_[0-9a-f-]{36}-__READ__\d{10}",
    "write": r"_c_[0-9a-f-]{36}-__WRIT__\d{10}",
    "lease": r"_c_[0-9a-f-]{36}-0-of-2-lease-\d{10}",
    "lock": r"_c_[0-9a-f-]{36}-of-2-lock-\d{10}",
}


def rwlock(url: str, name: str = "seat") -> str:
    """Where other programs find a read/write lock."""
    return folder(url, f"%rwlock/{name}")


def semaphore(url: str, name: str = "seat") -> str:
    return folder(url, f"%semaphore/{name}")


def kazoo_reader(kazoo: Any, url: str) -> Any:
    return kazoo.ReadLock(rwlock(url), "their words", extra_lock_patterns=READERS_WAIT_FOR)


def kazoo_writer(kazoo: Any, url: str) -> Any:
    return kazoo.WriteLock(rwlock(url), "their words", extra_lock_patterns=WRITERS_WAIT_FOR)


def waiting(lock: Any) -> threading.Thread:
    """Have a lock of kazoo wait in a thread of its own."""
    thread = threading.Thread(target=lock.acquire, daemon=True)
    thread.start()
    return thread


def test_who_writes_by_kazoo_keeps_us_out(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        theirs = kazoo_writer(kazoo, url)
        assert theirs.acquire()
        assert await is_busy(client, READ)
        assert await is_busy(client, WRITE)
        (shown,) = await client.holders("seat")
        assert (shown.role, shown.meta) == ("write", {"identifier": "their words"})
        reader = lab.start(hold(client, wish(READ)))
        await lab.until_queued(client, "seat", 1)
        theirs.release()
        assert (await reader.result()).fence > shown.fence

    run(flavor, scenario)


def test_who_reads_by_kazoo_keeps_our_writers_out_alone(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        theirs = kazoo_reader(kazoo, url)
        assert theirs.acquire()
        assert await is_busy(client, WRITE)
        ours = await take(client, READ)
        assert [holder.role for holder in await client.holders("seat")] == ["read", "read"]
        await engine_of(client).release(ours)
        writer = lab.start(hold(client, wish(WRITE)))
        await lab.until_queued(client, "seat", 1)
        theirs.release()
        await writer.result()

    run(flavor, scenario)


def test_who_writes_by_us_keeps_kazoo_out(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        ours = await take(client, WRITE)
        assert not kazoo_reader(kazoo, url).acquire(blocking=False)
        assert not kazoo_writer(kazoo, url).acquire(blocking=False)
        readers = [waiting(kazoo_reader(kazoo, url)) for _ in range(2)]
        await lab.until_queued(client, "seat", 2)
        downgraded = await engine_of(client).acquire(wish(READ)._replace(owner=ours.owner))
        assert downgraded.fence == ours.fence
        await lab.until(lambda: not any(map(threading.Thread.is_alive, readers)), "kazoo reads")
        assert [holder.role for holder in await client.holders("seat")] == ["read"] * 3
        assert not kazoo_writer(kazoo, url).acquire(blocking=False)

    run(flavor, scenario)


def test_who_reads_by_us_keeps_kazoo_s_writers_out_alone(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        ours = await take(client, READ)
        reader = kazoo_reader(kazoo, url)
        assert reader.acquire(timeout=20)
        reader.release()
        assert not kazoo_writer(kazoo, url).acquire(blocking=False)
        writer = waiting(kazoo_writer(kazoo, url))
        await lab.until_queued(client, "seat", 1)
        assert await is_busy(client, READ), "a reader overtook kazoo's writer"
        await engine_of(client).release(ours)
        await lab.until(lambda: not writer.is_alive(), "kazoo writes")

    run(flavor, scenario)


def test_readers_and_writers_of_curator_stand_in_our_queue(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        java = curator.ReadWriteLock(kazoo, rwlock(url))
        ours = await take(client, READ)
        reader, writer = java.join(curator.READ), java.join(curator.WRITE)
        assert java.has(reader)
        assert not java.has(writer)
        assert await is_busy(client, READ), "a reader overtook Curator's writer"
        await engine_of(client).release(ours)
        assert not java.has(writer)
        java.leave(reader)
        assert java.has(writer)
        waiter = lab.start(hold(client, wish(READ)))
        await lab.until_queued(client, "seat", 1)
        below = java.join_under(writer)
        assert java.has(below)
        java.leave(writer)
        await waiter.result()
        assert await is_busy(client, WRITE)

    run(flavor, scenario)


def test_our_downgraded_writer_stands_before_those_of_curator_who_wait(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        java = curator.ReadWriteLock(kazoo, rwlock(url))
        ours = await take(client, WRITE)
        first, writer, last = map(java.join, (curator.READ, curator.WRITE, curator.READ))
        assert not java.has(first)
        await engine_of(client).acquire(wish(READ)._replace(owner=ours.owner))
        assert [java.has(node) for node in (first, writer, last)] == [True, False, False]
        java.leave(first)
        assert not java.has(writer), "a writer came in beside a reader that was a writer"
        assert await engine_of(client).release(ours)
        assert java.has(writer)

    run(flavor, scenario)


def test_leases_of_curator_count_and_have_no_slot(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        java = curator.Semaphore(kazoo, semaphore(url), 2)
        lock = java.join()
        assert java.is_first(lock)
        lease = java.make_lease()
        assert java.has(lease)
        assert await is_busy(client, TWO), "a slot was taken while Curator makes a lease"
        java.unlock(lock)
        ours = await take(client, TWO)
        assert ours.share is not None
        assert ours.share.slot == 0
        assert await is_busy(client, TWO)
        shown = [(holder.role, holder.slot) for holder in await client.holders("seat")]
        assert shown == [("semaphore", 0), ("semaphore", None)]
        waiter = lab.start(hold(client, wish(TWO)))
        await lab.until_queued(client, "seat", 1)
        lock = java.join()
        assert not java.is_first(lock)
        java.close(lease)
        heir = await waiter.result()
        assert heir.share == TWO._replace(slot=1)
        assert java.is_first(lock)
        lease = java.make_lease()
        assert not java.has(lease), "Curator has a third of two leases"
        assert await engine_of(client).release(heir)
        assert java.has(lease)

    run(flavor, scenario)


@pytest.mark.parametrize("recipe", ["kazoo", "curator"])
def test_our_nodes_have_the_names_of_curator_whatever_the_recipe_of_locks(
    recipe: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, recipe=recipe)
        for kind, share in (("read", READ), ("write", WRITE)):
            grant = await take(client, share)
            (child,) = kazoo.get_children(rwlock(url))
            assert re.fullmatch(NODES[kind], child)
            await engine_of(client).release(grant)
        await take(client, TWO)
        (child,) = kazoo.get_children(f"{semaphore(url)}/leases")
        assert re.fullmatch(NODES["lease"], child)
        await take(client, TWO)
        waiter = lab.start(hold(client, wish(TWO)))
        await lab.until_queued(client, "seat", 1)
        (child,) = kazoo.get_children(f"{semaphore(url)}/locks")
        assert re.fullmatch(NODES["lock"], child)
        for lease in kazoo.get_children(f"{semaphore(url)}/leases"):
            kazoo.delete(f"{semaphore(url)}/leases/{lease}")
        await waiter.result()

    run("sync", scenario)
