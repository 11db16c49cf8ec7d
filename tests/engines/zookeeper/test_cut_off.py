"""Connections that break, and answers that never come: the session outlives them."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Unavailable
from tests.engines.renewal_retry import until_renewed
from tests.engines.zookeeper.tree import contenders, folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.zookeeper import ZooKeeper

SESSION = 2.0
BELIEVED = 0.75 * SESSION


def test_a_holder_that_is_cut_off_knows_before_the_session_ends(
    flavor: str, server: ZooKeeper, proxy: Proxy
) -> None:
    """H47: the holder's own clock decides, before it can reconnect and be told."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=SESSION)
        rival = await lab.connect(url)
        lease = await client.lock("seat", ttl=30).acquire()
        assert lease.ttl == pytest.approx(BELIEVED)
        waiter = lab.start(rival.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        proxy.block()
        other = await waiter.result()
        assert not lease, "two leases on one name were true at once"
        assert lease.lost.is_set()
        assert other.fence > lease.fence
        proxy.heal()
        assert await lease.release() is False
        other.check()
        await other.release()

    run(flavor, scenario)


def test_a_connection_that_comes_back_in_time_keeps_the_lease(
    flavor: str, server: ZooKeeper, proxy: Proxy
) -> None:
    """H48: broken for less than the session, and nobody is told of a loss."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(through(proxy, url), session=20.0)
        lease = await client.lock("seat", ttl=30, on_lost=told.append).acquire()
        session = client._core.engine._connection._session  # type: ignore[attr-defined]
        session_id = session.id
        proxy.cut()
        await lab.until(lambda: not session.connected, "a connection that is seen to be broken")
        proxy.heal()
        await until_renewed(lab, lease)
        assert session.id == session_id
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_node_whose_creation_was_not_answered_is_found_again(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """H49: the answer to create is lost; there is one node, and it is ours."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=4.0)
        await (await client.lock("seat").acquire()).release()
        proxy.lose_next_reply(b"__lock__", then_cut=then_cut)
        lease = await client.lock("seat", timeout=SOON).acquire()
        assert proxy.lost == 1
        (child,) = kazoo.get_children(folder(url, "seat"))
        stat = kazoo.exists(f"{folder(url, 'seat')}/{child}")
        assert stat is not None
        assert lease.fence == stat.czxid
        await lease.release()
        assert contenders(kazoo, url, "seat") == []

    run(flavor, scenario)


def test_a_release_that_was_not_answered_is_done_or_done_later(
    flavor: str, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """H14: the answer to delete is lost; nobody says that another has it."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=4.0)
        lease = await client.lock("seat").acquire()
        proxy.lose_next_reply(b"__lock__")
        assert await lease.release() is True
        assert contenders(kazoo, url, "seat") == []

    run(flavor, scenario)


def test_a_clean_up_that_failed_is_tried_until_it_is_done(
    flavor: str, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """No orphan: a waiter gives up while it is cut off, and its node goes when it can."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=20.0)
        rival = await lab.connect(url)
        lease = await rival.lock("seat").acquire()
        waiter = lab.start(client.lock("seat").try_acquire(timeout=2))
        await lab.until_queued(rival, "seat", 1)
        proxy.cut()
        try:
            assert await waiter.result(within=40) is None
        except (OutcomeUnknown, Unavailable):
            pass  # it may know no better
        assert len(kazoo.get_children(folder(url, "seat"))) == 2
        proxy.heal()
        await lab.until(lambda: len(kazoo.get_children(folder(url, "seat"))) == 1, "no orphan")
        await lease.release()

    run(flavor, scenario)
