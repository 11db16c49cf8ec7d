"""Leases, and the CP session that carries those of a client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencelock import LeaseLost, aio
from fencelock.engines.hazelcast import holds, sessions
from fencelock.model import Grant, Request
from tests.engines.hazelcast.raw import Raw
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import SOON, Lab, run
from tests.servers.hazelcast import Hazelcast


def engine_of(client: aio.Client) -> Any:
    return client._core.engine


def waits(client: aio.Client) -> bool:
    """Whether somebody is in the queue through it."""
    return any(hold.pending for hold in [*engine_of(client)._holds.by_owner.values()])


def test_a_lease_lasts_no_longer_than_a_session(flavor: str, hazelcast: Hazelcast) -> None:
    """The members set how long a session lives: a longer ttl becomes that, and is said to be."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url())
        lease = await client.lock("seat", ttl=3600).acquire()
        assert lease.ttl == hazelcast.session_ttl
        assert lease.remaining() <= hazelcast.session_ttl
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_session_that_is_closed_by_force_ends_its_leases(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    """H47: an administrator closes it; the holder is told, and what comes next has a new one."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        url = hazelcast.fresh_url()
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=30, on_lost=told.append).acquire()
        waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=SOON))
        await lab.until(lambda: waits(rival), "a waiter")
        (session,) = engine_of(client)._sessions.by_id
        assert raw.ask("close_session", session) is True
        other = await waiter.result()
        assert other.fence > lease.fence
        assert await lease.lost.wait(SOON)
        await lab.until(lambda: told, "its owner to be told")
        assert "session" in str(told[0])
        assert await lease.release() is False
        other.check()
        assert await other.release() is True
        again = await client.lock("seat", ttl=30).acquire()
        assert again.fence > other.fence
        assert await again.release() is True

    run(flavor, scenario)


def test_a_waiter_whose_session_has_ended_joins_the_queue_again(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    """H52: it is not told that it holds a lock by a session that is no more."""

    async def scenario(lab: Lab) -> None:
        url = hazelcast.fresh_url()
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=30).acquire()
        waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=SOON))
        await lab.until(lambda: waits(rival), "a waiter")
        (session,) = engine_of(rival)._sessions.by_id
        assert raw.ask("close_session", session) is True
        await lab.until(lambda: session not in engine_of(rival)._sessions.by_id, "its end")
        assert await lease.release() is True
        other = await waiter.result()
        assert other.fence > lease.fence
        await until_renewed(lab, other)
        assert await other.release() is True

    run(flavor, scenario)


def test_a_lock_that_another_program_released_is_lost(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    """H06, H56: whoever knows the session and the thread id unlocks; the next renewal tells."""

    async def scenario(lab: Lab) -> None:
        url = hazelcast.fresh_url()
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=1.5).acquire()
        (hold,) = engine_of(client)._holds.by_owner.values()
        raw.ask("unlock", hold.key, hold.session.id, hold.thread, hold.uid._replace(text="0" * 32))
        assert await lease.lost.wait(SOON)
        with pytest.raises(LeaseLost):
            lease.check()
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_session_is_replaced_when_it_has_been_used_much(
    hazelcast: Hazelcast, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H55: what members remember of its requests goes when it is closed, and none is left."""
    monkeypatch.setattr(sessions, "USES_MAX", 3)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url())
        engine, seen = engine_of(client), set[int]()
        kept = await client.lock("kept", ttl=30).acquire()
        (first,) = engine._sessions.by_id
        for _ in range(7):
            async with client.lock("seat", ttl=30):
                seen |= {*engine._sessions.by_id}
        assert len(seen) >= 3
        engine._holds.timer.expect(0.0)
        await lab.until(lambda: len(engine._sessions.by_id) <= 2, "all but two to be closed")
        assert first in engine._sessions.by_id
        kept.check()
        assert await kept.release() is True
        await client.close()
        for session in seen:
            assert raw.ask("close_session", session) is False

    run("asyncio", scenario)


def test_closing_keeps_what_is_held(hazelcast: Hazelcast, raw: Raw) -> None:
    """A client that is closed releases nothing: its session ends by itself."""

    async def scenario() -> None:
        client = await aio.connect(hazelcast.fresh_url())
        engine = engine_of(client)
        grant = await engine.acquire(Request("seat", "somebody", 30.0))
        (hold,) = engine._holds.by_owner.values()
        await client.close()
        assert raw.state(hold.key)["fence"] == grant.fence
        assert raw.ask("close_session", hold.session.id) is True

    asyncio.run(scenario())


def test_a_thread_id_is_never_used_twice(hazelcast: Hazelcast) -> None:
    """A late unlock of one attempt must not be one of another's."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url())
        seen = set[tuple[int, int]]()
        for _ in range(20):
            async with client.lock("seat", ttl=30):
                (hold,) = engine_of(client)._holds.by_owner.values()
                seen.add((hold.session.id, hold.thread))
                assert hold.thread > holds.THREAD_MIN
        assert len(seen) == 20

    run("asyncio", scenario)


def test_a_session_that_is_being_closed_as_unused_carries_no_new_lock(
    flavor: str, hazelcast: Hazelcast
) -> None:
    """An attempt has been given the session, and has not said so yet, when it is closed."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url())
        async with client.lock("warm", ttl=30):
            pass
        engine = engine_of(client)
        own, timer = engine._sessions, engine._holds.timer
        fresh, close = own.fresh, own.close
        begun, goes_on, done = list[object](), list[object](), list[object]()

        async def held_up(session: Any) -> None:
            own.end(session)
            begun.append(session)
            await lab.until(lambda: goes_on, "the attempt")
            await close(session)
            done.append(session)

        async def then_closed(ttl: float) -> Any:
            session, own.fresh = await fresh(ttl), fresh
            session.used_at -= 2 * holds.IDLE_S
            timer.expect(0.0)
            await lab.until(lambda: begun, "the end of the session")
            return session

        own.fresh, own.close = then_closed, held_up
        request = Request("seat", client._core.world.owner(), 30.0)
        answer = await engine.acquire(request)
        goes_on.append(True)
        await lab.until(lambda: done, "the session to be closed")
        grant = answer if isinstance(answer, Grant) else await engine.acquire(request)
        assert isinstance(grant, Grant)
        assert await engine.release(grant) is True

    run(flavor, scenario)
