"""Replies that do not come, for one who joins the queue and one who is woken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.zookeeper.contenders import NAME, Contender
from tests.engines.zookeeper.tree import contenders, folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.zookeeper import ZooKeeper


@pytest.mark.parametrize("then_cut", [True, False])
def test_who_comes_back_is_found_again_when_the_answer_is_lost(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """H49, for one who has held the lock before and queues again."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        holder, rival = await lab.connect(url), await lab.connect(url)
        client = await lab.connect(through(proxy, url), session=4.0)
        lease = await holder.lock(NAME, ttl=30).acquire()
        waiter = lab.start(client.lock(NAME, ttl=30, timeout=3 * SOON).acquire())
        await lab.until_queued(holder, NAME, 1)
        other = lab.start(rival.lock(NAME, ttl=30, timeout=3 * SOON).acquire())
        await lab.until_queued(holder, NAME, 2)
        await lease.release()
        mine = await waiter.result(within=3 * SOON)
        await mine.release()
        theirs = await other.result(within=3 * SOON)
        proxy.lose_next_reply(b"__lock__", then_cut=then_cut)
        waiter = lab.start(client.lock(NAME, ttl=30, timeout=3 * SOON).acquire())
        await lab.until(lambda: proxy.lost, "a lost answer")
        await lab.until_queued(holder, NAME, 1)
        await theirs.release()
        again = await waiter.result(within=3 * SOON)
        (child,) = kazoo.get_children(folder(url, NAME))
        stat = kazoo.exists(f"{folder(url, NAME)}/{child}")
        assert stat is not None
        assert again.fence == stat.czxid > theirs.fence
        await again.release()
        assert contenders(kazoo, url, NAME) == []

    run(flavor, scenario)


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_look_that_is_not_answered_is_made_again(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy
) -> None:
    """The queue is looked at as soon as the predecessor has gone: that answer may be lost."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(url)
        contender = Contender(lab, await lab.connect(through(proxy, url), session=4.0))
        lease = await holder.lock(NAME, ttl=30).acquire()
        await contender.join()
        proxy.lose_next_reply(folder(url, NAME).encode(), then_cut=then_cut)
        await lease.release()
        again = await contender.hold()
        assert proxy.lost == 1
        await again.release()

    run(flavor, scenario)
