"""A lease that another client takes over: its node moves into the session of that client."""

from __future__ import annotations

import re
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from fencelock import FencelockError, LeaseLost, Revoked, Unsupported, aio
from fencelock._client.lock_options import READ, WRITE
from fencelock.engines.zookeeper import paths
from fencelock.model import Busy, Grant, Request, Share
from tests.engines.zookeeper import curator
from tests.engines.zookeeper.tree import contenders, folder, through
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.zookeeper import ZooKeeper

NAME = "seat"
BRIEF = 1.0  # a session that is waited for until it ends
TTL = 30.0
LONG = 60.0  # a session that outlasts such a ttl
SLOT = Share("semaphore", 1, 2)


def session_of(client: aio.Client) -> int:
    return int(client._core.engine._connection.session_id)  # type: ignore[attr-defined]


def only_node(kazoo: Any, path: str) -> tuple[str, bytes, Any]:
    """The name, the data and the stat of the one child of a folder."""
    (child,) = kazoo.get_children(path)
    data, stat = kazoo.get(f"{path}/{child}")
    return child, data, stat


@pytest.mark.parametrize("recipe", ["kazoo", "curator"])
def test_a_lease_outlives_the_session_that_it_was_acquired_in(
    flavor: str, recipe: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver = await lab.connect(url, session=LONG, recipe=recipe)
        taker = await lab.connect(url, session=LONG)
        lease = await giver.lock(NAME, ttl=TTL, meta={"who": "giver"}).acquire()
        before, _, made = only_node(kazoo, folder(url, NAME))
        token = lease.hand_over()
        taken = await taker.take_over(token)
        child, _, stat = only_node(kazoo, folder(url, NAME))
        assert child != before
        assert child[-10:] == before[-10:], "it has lost its place in the queue"
        assert f"{session_of(taker) % 2**64:016x}" in child
        assert stat.ephemeralOwner == session_of(taker) != made.ephemeralOwner
        (shown,) = await taker.holders(NAME)
        assert shown.fence == taken.fence == lease.fence == made.czxid < stat.czxid
        assert shown.meta["who"] == "giver"
        await giver._core.engine._connection.close(end_session=True)  # type: ignore[attr-defined]
        lab.forget(giver)
        assert kazoo.exists(f"{folder(url, NAME)}/{child}"), "it went with the session of its giver"
        await taken.renew()
        assert await taken.release()
        assert contenders(kazoo, url, NAME) == []

    run(flavor, scenario)


def test_a_name_never_stands_for_nodes_of_two_sessions() -> None:
    guid = "0123456789abcdef" * 2
    kazoo = f"{guid}__lock__0000000042"
    there = paths.in_session(kazoo, guid, 0x17)
    assert there == f"{guid}0000000000000017__lock__0000000042"
    assert paths.in_session(there, guid, -1) == f"{guid}{'f' * 16}__lock__0000000042"
    assert paths.sequence(there) == 42
    for label in ("lock-", "of-4-lock-", "3-of-4-lease-", "__READ__", "__WRIT__"):
        prefix = paths.protected("owner", "curator")
        child = f"{prefix}{label}0000000042"
        there = paths.in_session(child, prefix, 0x17)
        assert there == f"{prefix}0000000000000017-{label}0000000042"
        assert paths.in_session(there, prefix, 0x18) == there.replace("17-", "18-")
        assert (paths.slot(there), paths.limit(there)) == (paths.slot(child), paths.limit(child))
        assert paths.sequence(there) == paths.sequence(child)


def test_what_the_giver_still_knows_does_not_end_it(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """The giver deletes what was not renewed in time, by the name that it knows."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker = [await lab.connect(url, session=LONG) for _ in range(2)]
        lease = await giver.lock(NAME, ttl=TTL).acquire()
        taken = await taker.take_over(lease.hand_over())
        engine: Any = giver._core.engine
        (node,) = engine._nodes.values()
        node.keep_until(giver._core.world.now())
        await lab.until(lambda: not engine._nodes, "the giver forgets its node")
        await taken.renew()
        assert len(contenders(kazoo, url, NAME)) == 1
        assert await taken.release()

    run(flavor, scenario)


def test_a_lease_whose_session_has_ended_cannot_be_taken_over(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker = await lab.connect(url, session=BRIEF), await lab.connect(url)
        token = (await giver.lock(NAME).acquire()).hand_over()
        await giver.close()
        lab.forget(giver)
        await lab.until(lambda: not contenders(kazoo, url, NAME), "its session ends")
        with pytest.raises(LeaseLost, match="gone from ZooKeeper"):
            await taker.take_over(token)
        await (await taker.lock(NAME).acquire()).release()

    run(flavor, scenario)


def test_who_takes_over_what_was_revoked_is_told_why(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker, third = [await lab.connect(url, session=LONG) for _ in range(3)]
        for share in ("lock", "slot"):
            lock = giver.semaphore(NAME, limit=2) if share == "slot" else giver.lock(NAME)
            token = (await lock.acquire()).hand_over()
            taken = await taker.take_over(token)
            assert await third.revoke(NAME, f"the {share} is wanted")
            with pytest.raises(Revoked, match=f"the {share} is wanted"):
                await giver.take_over(token)
            with pytest.raises(Revoked, match=f"the {share} is wanted"):
                await taken.renew()

    run(flavor, scenario)


async def outcome(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except FencelockError as error:
        return error


def test_of_those_that_take_over_at_once_one_has_the_node(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """Whoever knows the owner may renew, as with every engine; there is one node, and one fence."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver = await lab.connect(url, session=LONG)
        takers = [await lab.connect(url, session=LONG) for _ in range(4)]
        for _ in range(5):
            lease = await giver.lock(NAME, ttl=TTL).acquire()
            token = lease.hand_over()
            jobs = [lab.start(outcome(taker.take_over(token))) for taker in takers]
            taken = [await job.result() for job in jobs]
            assert [one.fence for one in taken] == [lease.fence] * 4
            _, _, stat = only_node(kazoo, folder(url, NAME))
            assert stat.ephemeralOwner in map(session_of, takers)
            assert await taken[0].release()
            assert contenders(kazoo, url, NAME) == []
            for one in taken[1:]:
                assert await one.release() is False

    run(flavor, scenario)


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_move_that_was_not_answered_is_found_again(
    flavor: str, then_cut: bool, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver = await lab.connect(url, session=LONG)
        taker = await lab.connect(through(proxy, url), session=8.0)
        lease = await giver.lock(NAME, ttl=TTL).acquire()
        token = lease.hand_over()
        tag = f"{session_of(taker) % 2**64:016x}"
        proxy.lose_next_reply(tag.encode(), then_cut=then_cut)
        taken = await outcome(taker.take_over(token))
        assert proxy.lost == 1, "nothing was lost"
        while isinstance(taken, FencelockError):
            assert not isinstance(taken, LeaseLost)
            taken = await outcome(taker.take_over(token))  # the token can be used again
        child, _, stat = only_node(kazoo, folder(url, NAME))
        assert tag in child
        assert stat.ephemeralOwner == session_of(taker)
        assert taken.fence == lease.fence
        assert await taken.release()
        assert contenders(kazoo, url, NAME) == []

    run(flavor, scenario)


def test_a_move_that_nobody_asks_about_again_ends_with_its_ttl(
    flavor: str, server: ZooKeeper, proxy: Proxy, kazoo: Any
) -> None:
    """The taker's session lives on: the node must not live with it."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver = await lab.connect(url, session=LONG)
        taker = await lab.connect(through(proxy, url), session=8.0)
        token = (await giver.lock(NAME, ttl=2.0, renew=False).acquire()).hand_over()
        proxy.lose_next_reply(f"{session_of(taker) % 2**64:016x}".encode(), then_cut=True)
        engine: Any = taker._core.engine
        grant = taken_grant(token)
        with pytest.raises(FencelockError):
            await engine._takeover.take(grant)
        assert proxy.lost == 1
        await lab.until(lambda: not contenders(kazoo, url, NAME), "it is deleted when it is due")
        await lab.until(lambda: not engine._nodes, "and forgotten")

    run(flavor, scenario)


def taken_grant(token: str) -> Grant:
    from fencelock._client.lease_token import unpack

    return unpack(token)[0]


def test_kazoo_waits_on_beside_a_take_over(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker = [await lab.connect(url, session=LONG) for _ in range(2)]
        lease = await giver.lock(NAME, ttl=TTL).acquire()
        turns: list[str] = []

        def wait() -> None:
            with kazoo.Lock(folder(url, NAME), "kazoo"):
                turns.append("kazoo")

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        await lab.until_queued(taker, NAME, 1)
        ours = lab.start(taker.lock(NAME, ttl=TTL, timeout=SOON).acquire())
        await lab.until_queued(taker, NAME, 2)
        for client in (taker, giver):
            lease = await client.take_over(lease.hand_over())
        taken = await taker.take_over(lease.hand_over())
        probe = kazoo.Lock(folder(url, NAME), "probe")
        assert not probe.acquire(blocking=False)
        state = await taker._core.engine.inspect(NAME)
        assert len(state.waiters) == 2
        assert turns == []
        assert not ours.done()
        assert await taken.release()
        assert await (await ours.result()).release()
        assert turns == ["kazoo"], "who came first had its turn first"
        thread.join(SOON)

    run(flavor, scenario)


def test_curator_is_kept_out_beside_a_take_over(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker = [await lab.connect(url, session=LONG) for _ in range(2)]
        root = f"/{url.rpartition('/')[2]}"
        writer = await giver.rwlock(NAME, ttl=TTL).write().acquire()
        theirs = curator.ReadWriteLock(kazoo, f"{root}/%rwlock/{NAME}")
        reader = theirs.join(curator.READ)
        taken = await taker.take_over(writer.hand_over())
        assert not theirs.has(reader)
        await taken.downgrade()
        assert theirs.has(reader)
        assert await taken.release()
        slots = [await giver.semaphore(NAME, limit=2, ttl=TTL).acquire() for _ in range(2)]
        moved = [await taker.take_over(slot.hand_over()) for slot in slots]
        assert {one.slot for one in moved} == {0, 1}
        semaphore = f"{root}/%semaphore/{NAME}"
        assert len(kazoo.get_children(f"{semaphore}/leases")) == 2
        assert await taker.semaphore(NAME, limit=2).try_acquire() is None
        for one in moved:
            assert await one.release()
        assert kazoo.get_children(f"{semaphore}/leases") == []

    run(flavor, scenario)


@pytest.mark.parametrize("share", [None, SLOT, READ, WRITE])
def test_who_holds_and_asks_elsewhere_stands_once(
    flavor: str, share: Share | None, server: ZooKeeper
) -> None:
    """The other client first joins the queue, sees that its owner holds, and takes that over."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(url, session=LONG) for _ in range(2)]
        request = Request(NAME, "owner", TTL, share=share)
        first = await clients[0]._core.engine.acquire(request)
        assert isinstance(first, Grant)
        for client in (clients[1], clients[0], clients[1]):
            for queue in (True, False):
                again = await client._core.engine.acquire(request._replace(queue=queue))
                assert isinstance(again, Grant)
                assert (again.fence, again.share) == (first.fence, first.share)
                assert again.ttl == TTL
        state = await clients[0]._core.engine.inspect(NAME)
        assert (len(state.holders), state.waiters) == (1, ())
        assert await clients[0]._core.engine.release(first)

    run(flavor, scenario)


def test_a_waiter_elsewhere_is_not_taken_for_the_holder(flavor: str, server: ZooKeeper) -> None:
    """Its owner waits through another client: the node with its fence is moved, the other goes."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        other, one, two = [await lab.connect(url, session=LONG) for _ in range(3)]
        held = await other.lock(NAME, ttl=TTL).acquire()
        request = Request(NAME, "owner", TTL, queue=True)
        for client in (one, two):
            assert isinstance(await client._core.engine.acquire(request), Busy)
        assert len((await other._core.engine.inspect(NAME)).waiters) == 2
        await held.release()
        grant = await one._core.engine.acquire(request)
        assert isinstance(grant, Grant)
        (again,) = await two._core.engine.renew([grant])
        assert isinstance(again, Grant)
        assert again.fence == grant.fence
        state = await other._core.engine.inspect(NAME)
        assert (len(state.holders), state.waiters) == (1, ())
        assert await two._core.engine.release(grant)

    run(flavor, scenario)


def test_a_holder_is_seen_though_it_moves_while_somebody_looks(
    flavor: str, server: ZooKeeper
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        giver, taker, third = [await lab.connect(url, session=LONG) for _ in range(3)]
        lease = await giver.lock(NAME, ttl=TTL).acquire()
        inspection: Any = third._core.engine._inspection  # type: ignore[attr-defined]
        listed, leases = inspection._listed, [lease]

        async def move_when_listed(name: str) -> Any:
            found = await listed(name)
            if len(leases) == 1:
                leases.append(await taker.take_over(lease.hand_over()))
            return found

        inspection._listed = move_when_listed
        assert await third.revoke(NAME, "for the test")
        with pytest.raises(Revoked):
            await leases[1].renew()
        assert await third.holders(NAME) == []

    run(flavor, scenario)


def test_what_a_session_does_not_outlast_is_refused(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=20)
        with pytest.raises(Unsupported, match=r"15 s at most, and min_hold=16 .*session="):
            client.lock(NAME, min_hold=16)
        with pytest.raises(Unsupported, match=r"15 s at most, and delay=8 .*session="):
            client.lock(NAME, delay=8)
        async with client.lock(NAME, ttl=30, delay=5) as lease:
            assert lease.ttl == pytest.approx(10), "the delay is what is left of a session"
            await lease.renew()
            assert lease.ttl == pytest.approx(10)
            await lease.renew(ttl=60)
            assert lease.ttl == pytest.approx(10)
        lease = await client.lock(NAME, ttl=10, min_hold=15).acquire()
        assert await lease.release()
        assert await client.lock(NAME).try_acquire() is None

    run(flavor, scenario)


def test_a_shortest_hold_is_refused_where_the_servers_limit_the_session(
    flavor: str, own_server: ZooKeeper
) -> None:
    """Only who is connected knows what the servers grant: then nothing is held."""

    async def scenario(lab: Lab) -> None:
        url = own_server.fresh_url()
        client = await lab.connect(url, session=3000)
        assert client.traits.ttl_max == pytest.approx(900)
        with pytest.raises(Unsupported, match=re.escape("900 s at most, and min_hold=1000")):
            client.lock(NAME, min_hold=1000)
        assert await client.holders(NAME) == []

    run(flavor, scenario)
