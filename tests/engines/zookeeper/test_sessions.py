"""What a session's life does to the leases it carries."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Revoked, SessionEnded, Unavailable
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.session import Session
from tests.engines.renewing import until_renewed
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.server import until
from tests.servers.zookeeper import ZooKeeper

SESSION = 2.0
BELIEVED = 0.75 * SESSION
ANSWERED = 0.5


def through(proxy: Proxy, url: str) -> str:
    """The same root, by way of a proxy."""
    return f"zookeeper://{proxy.address}/{url.rpartition('/')[2]}"


def folder(url: str, name: str) -> str:
    return f"/{url.rpartition('/')[2]}/{name}"


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
        link = client._core.engine._wire._link  # type: ignore[attr-defined]
        session = link.id
        proxy.cut()
        await lab.until(lambda: not link.welcomed, "a connection that is seen to be broken")
        proxy.heal()
        await until_renewed(lab, lease)
        assert link.id == session
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
        assert kazoo.get_children(folder(url, "seat")) == []

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
        assert kazoo.get_children(folder(url, "seat")) == []

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
        waiter = lab.start(client.lock("seat").try_acquire(timeout=0.5))
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


def test_a_deleted_node_is_a_lost_lease(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    """H56: an operator deletes the node; the holder is told with its next renewal."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=SESSION)
        lease = await client.lock("seat").acquire()
        (child,) = kazoo.get_children(folder(url, "seat"))
        kazoo.delete(f"{folder(url, 'seat')}/{child}")
        assert await lease.lost.wait(SOON)
        with pytest.raises(Revoked, match="its node was deleted from ZooKeeper"):
            lease.check()
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_waiter_whose_node_was_deleted_stands_in_line_anew(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """H56: it knows that only the holder stood before it; its turn has not come for all that."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        holder, client, rival = [await lab.connect(url) for _ in range(3)]
        lease = await holder.lock("seat", ttl=30).acquire()
        waiter = lab.start(client.lock("seat", ttl=30, timeout=SOON).acquire())
        watches = client._core.engine._wire._link._watches  # type: ignore[attr-defined]
        await lab.until(lambda: watches, "a waiter that watches the holder")
        node = next(iter(client._core.engine._nodes.values()))  # type: ignore[attr-defined]
        kazoo.delete(node.path)
        other = lab.start(rival.lock("seat", ttl=30, timeout=SOON).acquire())
        await lab.until_queued(holder, "seat", 1)
        await lease.release()
        second = await other.result()
        await lab.until_queued(holder, "seat", 1)
        assert not waiter.done(), "two leases on one name were true at once"
        await second.release()
        third = await waiter.result()
        (child,) = kazoo.get_children(folder(url, "seat"))
        stat = kazoo.exists(f"{folder(url, 'seat')}/{child}")
        assert lease.fence < second.fence < third.fence == stat.czxid
        await third.release()

    run(flavor, scenario)


def test_a_session_that_expired_while_it_held_is_a_lost_lease(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """The ensemble ends the session of a healthy client: an operator can."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=SESSION)
        lease = await client.lock("seat").acquire()
        end_session(client, server)
        assert await lease.lost.wait(SOON)
        with pytest.raises((SessionEnded, Revoked)):
            lease.check()
        assert await lease.release() is False
        fresh = await client.lock("seat", timeout=SOON).acquire()
        assert fresh.fence > lease.fence
        await fresh.release()

    run(flavor, scenario)


def test_a_session_that_expired_while_it_queued_queues_again(
    flavor: str, server: ZooKeeper
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url, session=SESSION), await lab.connect(url)
        lease = await rival.lock("seat").acquire()
        waiter = lab.start(client.lock("seat", timeout=3 * SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        end_session(client, server)
        await lab.until_queued(rival, "seat", 1)
        assert not waiter.done()
        await lease.release()
        await (await waiter.result(within=3 * SOON)).release()

    run(flavor, scenario)


def test_what_an_earlier_session_left_behind_is_not_ours(
    flavor: str, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """A client that has a new session does not hold by a node of its old one, which will vanish."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=SESSION)
        rival = await lab.connect(url)
        lease = await rival.lock("seat").acquire()
        waiter = lab.start(client.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        proxy.block()
        await lease.release()
        link = client._core.engine._wire._link  # type: ignore[attr-defined]
        link.id, link._password = 0, bytes(16)
        proxy.reset()
        proxy.heal()
        granted = await waiter.result()
        (child,) = kazoo.get_children(folder(url, "seat"))
        stat = kazoo.exists(f"{folder(url, 'seat')}/{child}")
        assert (stat.czxid, stat.ephemeralOwner) == (granted.fence, link.id)
        await granted.release()

    run(flavor, scenario)


def end_session(client: object, server: ZooKeeper) -> None:
    """End a client's session as another connection of it can: by its id and password.

    All is said in one go, for the client comes back at once and takes its session over again. When
    it was quicker the server may have thrown away what was said, so it is said until it is done.
    """
    link = client._core.engine._wire._link  # type: ignore[attr-defined]
    double = Session(SESSION, ())
    double.id, double._password = link.id, link._password
    session = f"{link.id & (2**64 - 1):#x}"
    assert session in server.ask("dump")

    def ended() -> bool:
        farewell = double.greet() + double.ask([requests.CLOSE], requests.Flight(1, lambda: None))
        with socket.create_connection(("127.0.0.1", server.port), ANSWERED) as line:
            line.sendall(farewell)
            with suppress(ConnectionResetError, TimeoutError):
                while line.recv(4096):
                    pass
        return session not in server.ask("dump")

    until(ended, "the end of a session", within=SOON)


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
    monkeypatch.setattr("fencelock.engines.zookeeper.sweeper.EMPTY_S", 0.2)
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        client._core.engine._folders.containers = False  # type: ignore[attr-defined]
        await (await client.lock("seat").acquire()).release()
        root = f"/{url.rpartition('/')[2]}"
        await lab.until(lambda: kazoo.get_children(root) == [], "the folder is removed")
        await (await client.lock("seat").acquire()).release()

    run(flavor, scenario)
