"""What a session's life does to the leases it carries."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest

from fencelock import Revoked, SessionEnded
from fencelock.engines.zookeeper.node import read_fence
from fencelock.engines.zookeeper.wire import messages
from fencelock.engines.zookeeper.wire.session import Session
from fencelock.judge.torture.proxy import TO_CLIENT
from tests.engines.zookeeper.tree import folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.server import until
from tests.servers.zookeeper import ZooKeeper

SESSION = 2.0

ANSWERED = 0.5


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
        watches = client._core.engine._connection._session._watches  # type: ignore[attr-defined]
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
        theirs = client._core.engine._connection._session  # type: ignore[attr-defined]
        await lab.until(lambda: theirs._watches, "a waiter that knows its node")
        proxy.block()
        await lease.release()
        renew_session(theirs, proxy)
        granted = await waiter.result()
        (child,) = kazoo.get_children(folder(url, "seat"))
        stat = kazoo.exists(f"{folder(url, 'seat')}/{child}")
        assert (stat.czxid, stat.ephemeralOwner) == (granted.fence, theirs.id)
        await granted.release()

    run(flavor, scenario)


def test_what_an_earlier_session_made_unanswered_goes_on_in_the_new_one(
    flavor: str, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """Its owner asks again, and is first by that node: it keeps its fence and changes sessions."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url), session=SESSION)
        rival = await lab.connect(url)
        await (await client.lock("another").acquire()).release()  # it has a session now
        lease = await rival.lock("seat").acquire()
        proxy.block(TO_CLIENT)
        waiter = lab.start(client.lock("seat", timeout=SOON).acquire())
        await lab.until_queued(rival, "seat", 1)
        await lease.release()
        theirs = client._core.engine._connection._session  # type: ignore[attr-defined]
        renew_session(theirs, proxy)
        granted = await waiter.result()
        (child,) = kazoo.get_children(folder(url, "seat"))
        data, stat = kazoo.get(f"{folder(url, 'seat')}/{child}")
        assert (read_fence(data, stat.czxid), stat.ephemeralOwner) == (granted.fence, theirs.id)
        assert lease.fence < granted.fence < stat.czxid
        await granted.release()
        assert kazoo.get_children(folder(url, "seat")) == []

    run(flavor, scenario)


def renew_session(session: Session, proxy: Proxy) -> None:
    """Have a client forget its session, and connect anew."""
    session.id, session._password = 0, bytes(16)
    proxy.reset()
    proxy.heal()


def end_session(client: object, server: ZooKeeper) -> None:
    """End a client's session as another connection of it can: by its id and password.

    All is said in one go, for the client comes back at once and takes its session over again. When
    it was quicker the server may have thrown away what was said, so it is said until it is done.
    """
    theirs = client._core.engine._connection._session  # type: ignore[attr-defined]
    double = Session(SESSION, ())
    double.id, double._password = theirs.id, theirs._password
    session = f"{theirs.id & (2**64 - 1):#x}"
    assert session in server.ask("dump")

    def ended() -> bool:
        farewell = double.connect() + double.send([messages.CLOSE], messages.Batch(1, lambda: None))
        with socket.create_connection(("127.0.0.1", server.port), ANSWERED) as connection:
            connection.sendall(farewell)
            with suppress(ConnectionResetError, TimeoutError):
                while connection.recv(4096):
                    pass
        return session not in server.ask("dump")

    until(ended, "the end of a session", within=SOON)
