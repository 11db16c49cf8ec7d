"""The nodes and folders that locks leave in the tree, and when they go."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import OutcomeUnknown
from tests.engines.zookeeper.shares import engine_of, wish
from tests.engines.zookeeper.tree import contenders, folder
from tests.faults.flavors import SOON, Lab, run
from tests.servers.zookeeper import ZooKeeper


def test_two_holders_of_one_client_are_two_nodes(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat").acquire()
        waiter = lab.start(client.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(client, "seat", 1)
        assert len(kazoo.get_children(folder(url, "seat"))) == 2
        await lease.release()
        await (await waiter.result()).release()

    run(flavor, scenario)


def test_a_refused_try_leaves_no_node(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await rival.lock("seat", meta={"job": "x"}).acquire()
        for _ in range(100):
            assert await client.lock("seat").try_acquire() is None
        assert len(kazoo.get_children(folder(url, "seat"))) == 1
        with pytest.raises(TimeoutError, match="job x"):
            await client.lock("seat").acquire(timeout=0)
        await lease.release()

    run(flavor, scenario)


def test_a_process_that_stands_still_before_it_asks_leaves_no_node(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """Its node is due, and is looked for in vain, before the request for it was sent."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        engine = engine_of(await lab.connect(url))
        ready = engine._connection.ready

        async def stand_still() -> None:
            await lab.until(lambda: not engine._nodes, "a node that was given up")
            await ready()

        engine._connection.ready = stand_still
        with pytest.raises(OutcomeUnknown, match="is being taken back"):
            await engine.acquire(wish(None, "seat", ttl=0.1))
        await lab.until(lambda: not contenders(kazoo, url, "seat"), "a queue without it")

    run(flavor, scenario)


def test_unused_folders_go_and_the_fence_grows_on(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        first = await client.lock("a/b").acquire()
        await first.release()
        root = f"/{url.rpartition('/')[2]}"
        await lab.until(lambda: kazoo.get_children(root) == [], "the folders are removed")
        again = await client.lock("a/b").acquire()
        assert again.fence > first.fence
        await again.release()

    run(flavor, scenario)


def test_unused_folders_go_where_the_server_has_no_containers(
    flavor: str, server: ZooKeeper, kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock.engines.zookeeper.deletion.EMPTY_S", 0.2)
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        client._core.engine._folders.containers = False  # type: ignore[attr-defined]
        await (await client.lock("seat").acquire()).release()
        root = f"/{url.rpartition('/')[2]}"
        await lab.until(lambda: kazoo.get_children(root) == [], "the folder is removed")
        await (await client.lock("seat").acquire()).release()

    run(flavor, scenario)
