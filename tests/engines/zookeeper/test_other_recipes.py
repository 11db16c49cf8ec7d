"""kazoo's own Lock and Curator's nodes stand in one queue with ours."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from tests.faults.flavors import SOON, Lab, run
from tests.servers.zookeeper import ZooKeeper


def folder(url: str, name: str) -> str:
    """Where other programs find a lock."""
    return f"/{url.rpartition('/')[2]}/{name}"


def kazoo_waits(client: Any, path: str, turns: list[str], who: str) -> threading.Thread:
    """Have a lock of kazoo wait in a thread of its own; it notes its turn and leaves."""

    def wait() -> None:
        with client.Lock(path, who):
            turns.append(who)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_who_holds_by_kazoo_keeps_us_out(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        theirs = kazoo.Lock(folder(url, "seat"), "their words")
        assert theirs.acquire()
        assert await client.lock("seat").try_acquire() is None
        (shown,) = await client.holders("seat")
        assert shown.meta == {"identifier": "their words"}
        waiter = lab.start(client.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(client, "seat", 1)
        theirs.release()
        lease = await waiter.result()
        assert lease.fence > shown.fence
        await lease.release()

    run(flavor, scenario)


def test_who_holds_by_us_keeps_kazoo_out(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat").acquire()
        theirs = kazoo.Lock(folder(url, "seat"))
        assert not theirs.acquire(blocking=False)
        turns: list[str] = []
        thread = kazoo_waits(kazoo, folder(url, "seat"), turns, "kazoo")
        await lab.until_queued(client, "seat", 1)
        assert turns == []
        await lease.release()
        await lab.until(lambda: turns, "kazoo gets its turn")
        thread.join(SOON)

    run(flavor, scenario)


def test_a_mixed_queue_is_served_in_the_order_of_arrival(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()
    turns: list[str] = []

    async def take_turn(client: Any, who: str) -> None:
        async with client.lock("seat", timeout=SOON):
            turns.append(who)

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(url), await lab.connect(url)]
        lease = await clients[0].lock("seat").acquire()
        jobs: list[Any] = []
        threads: list[threading.Thread] = []
        for number, who in enumerate(["ours", "kazoo", "kazoo", "ours", "kazoo", "ours"]):
            if who == "ours":
                jobs.append(lab.start(take_turn(clients[number % 2], f"{number} {who}")))
            else:
                path = folder(url, "seat")
                threads.append(kazoo_waits(kazoo, path, turns, f"{number} {who}"))
            await lab.until_queued(clients[0], "seat", number + 1)
        await lease.release()
        for job in jobs:
            await job.result()
        for thread in threads:
            thread.join(SOON)

    run(flavor, scenario)
    assert turns == ["0 ours", "1 kazoo", "2 kazoo", "3 ours", "4 kazoo", "5 ours"]


def test_a_node_of_curator_is_waited_for(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        await (await client.lock("seat").acquire()).release()
        prefix = f"{folder(url, 'seat')}/_c_5ba6f0d8-0f9b-4a4e-bd4b-c1a0e6e9e7a9-lock-"
        theirs = kazoo.create(prefix, b"10.0.0.1", ephemeral=True, sequence=True)
        waiter = lab.start(client.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(client, "seat", 1)
        assert not waiter.done()
        kazoo.delete(theirs)
        await (await waiter.result()).release()

    run(flavor, scenario)


@pytest.mark.parametrize("recipe", ["kazoo", "curator"])
def test_our_node_is_named_as_the_recipe_says(recipe: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, recipe=recipe)
        async with client.lock("seat"):
            (child,) = kazoo.get_children(folder(url, "seat"))
            pattern = {"kazoo": "[0-9a-f]{32}__lock__", "curator": "_c_[0-9a-f-]{36}-lock-"}[recipe]
            assert re.fullmatch(pattern + r"\d{10}", child)

    run("sync", scenario)
