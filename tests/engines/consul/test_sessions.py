"""What a session's life does to the leases that it carries, and theirs to it."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import AcquireTimeout, Revoked, SessionEnded
from fencelock.engines.consul import holds
from fencelock.model import Grant, Request
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.consul import Consul
from tests.servers.proxy import Proxy


def key_of(url: str, name: str) -> str:
    return url.partition("prefix=")[2] + name


def sessions_at(consul: Consul, url: str, *names: str) -> set[str]:
    """The sessions that hold the keys of these names."""
    return {str(consul.pair(key_of(url, name))["Session"]) for name in names}


def test_leases_of_equal_length_share_a_session_that_no_health_check_ends(
    flavor: str, consul: Consul
) -> None:
    """H55, H58: a session that depends on the health of a node would end at any moment."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, lock_delay=2.5)
        leases = [await client.lock(f"seat-{n}", ttl=30).acquire() for n in range(5)]
        (session,) = sessions_at(consul, url, *(f"seat-{n}" for n in range(5)))
        (info,) = consul.ask("GET", f"session/info/{session}")
        assert (info["TTL"], info["Behavior"], info["NodeChecks"]) == ("30s", "delete", [])
        assert info["LockDelay"] == 2_500_000_000
        other = await client.lock("long", ttl=3600).acquire()
        assert sessions_at(consul, url, "long") != {session}
        for lease in (*leases, other):
            assert await lease.release() is True
        await client.close()
        assert session not in [one["ID"] for one in consul.sessions()]

    run(flavor, scenario)


def test_two_locks_of_one_client_exclude_each_other(flavor: str, consul: Consul) -> None:
    """A session may acquire a key again that it holds: so Consul alone would let both in."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(consul.fresh_url())
        async with client.lock("seat", ttl=30) as lease:
            assert await client.lock("seat", ttl=30).try_acquire() is None
            with pytest.raises(AcquireTimeout):
                await client.lock("seat", ttl=30).acquire(timeout=0.2)
            lease.check()
        async with client.lock("seat", ttl=30) as later:
            assert later.fence > lease.fence

    run(flavor, scenario)


def test_a_session_that_an_operator_ends_is_a_lost_lease(flavor: str, consul: Consul) -> None:
    """H47: all its leases are told, and the client goes on with a new session."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        leases = [await client.lock(name, ttl=30).acquire() for name in ("seat", "row")]
        (session,) = sessions_at(consul, url, "seat", "row")
        waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=SOON))
        consul.ask("PUT", f"session/destroy/{session}")
        other = await waiter.result()
        make_due(leases[0])
        for lease in leases:
            make_due(lease)
            assert await lease.lost.wait(SOON)
            with pytest.raises((SessionEnded, Revoked)):
                lease.check()
            assert await lease.release() is False
        assert other.fence > leases[0].fence
        assert await other.release() is True
        async with client.lock("seat", ttl=30) as again:
            assert again.fence > other.fence

    run(flavor, scenario)


def test_a_deleted_key_is_a_lost_lease(flavor: str, consul: Consul) -> None:
    """H56: an operator deletes the key, or writes to it; the holder is told when it renews."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        for method, body in (("DELETE", None), ("PUT", b"mine")):
            lease = await client.lock("seat", ttl=30).acquire(timeout=SOON)
            consul.ask(method, f"kv/{key_of(url, 'seat')}", body)
            make_due(lease)
            assert await lease.lost.wait(SOON)
            with pytest.raises(Revoked, match="deleted, or written to by another program"):
                lease.check()
            assert await lease.release() is False
            consul.ask("DELETE", f"kv/{key_of(url, 'seat')}")

    run(flavor, scenario)


def test_a_revocation_tells_its_reason_and_its_word_goes_away(flavor: str, consul: Consul) -> None:
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, admin = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=30).acquire()
        assert await admin.revoke("seat", "maintenance of “seat”") is True
        assert await admin.revoke("seat", "again") is False
        make_due(lease)
        assert await lease.lost.wait(SOON)
        with pytest.raises(Revoked, match="maintenance of “seat”"):
            lease.check()
        (word,) = consul.ask("GET", f"kv/{key_of(url, '')}?keys")
        assert "%revoked/" in word
        (info,) = consul.ask(
            "GET", f"session/info/{consul.pair(word.replace('%', '%25'))['Session']}"
        )
        assert (info["Behavior"], info["TTL"]) == ("delete", "30s")
        assert await admin.scan() == []

    run(flavor, scenario)


def test_a_lease_that_is_shorter_than_its_session_ends_by_itself(
    flavor: str, consul: Consul
) -> None:
    """Consul's shortest session is ten seconds; the client deletes what nobody renews."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session_ttl_min=600)
        lease = await client.lock("seat", ttl=0.5, renew=False).acquire()
        async with client.lock("seat", ttl=30, timeout=SOON) as other:
            assert lease.lost.is_set()
            assert other.fence > lease.fence

    run(flavor, scenario)


def test_a_lease_is_not_believed_in_for_longer_than_its_session(
    flavor: str, consul: Consul
) -> None:
    """The session may be older than the lease: what is left of it is what the lease has."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        async with client.lock("seat", ttl=30):
            pass
        engine = client._core.engine
        (session,) = engine._sessions.by_id.values()  # type: ignore[attr-defined]
        session.alive_at -= 2.0  # 28 of its 30 seconds are left
        grant = await engine.acquire(Request("seat", "owner", 30.0))
        assert isinstance(grant, Grant)
        assert grant.valid_until < session.alive_at + session.ttl
        assert await engine.release(grant) is True
        session.alive_at -= 5.0  # too old to be used as it is
        before = client._core.world.now()
        grant = await engine.acquire(Request("seat", "owner2", 30.0))
        assert isinstance(grant, Grant)
        assert session.alive_at >= before
        session.alive_at -= 40.0  # over, by our own clock: it is not even asked for
        again = await engine.acquire(Request("row", "owner3", 30.0))
        assert isinstance(again, Grant)
        assert sessions_at(consul, url, "seat") != sessions_at(consul, url, "row")
        (gone,) = await engine.renew([grant])
        assert not isinstance(gone, Grant)
        assert gone.loss == "session"
        assert await engine.release(again) is True
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_a_waiter_knows_a_lock_delay_and_does_not_spin(
    flavor: str, consul: Consul, proxy: Proxy
) -> None:
    """H57: after its session was ended, Consul keeps the lock from everybody for a while."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, lock_delay=3)
        rival = await lab.connect(url.replace(consul.address, proxy.address))
        lease = await client.lock("seat", ttl=30).acquire()
        (session,) = sessions_at(consul, url, "seat")
        async with rival.lock("other", ttl=30):
            pass
        consul.ask("PUT", f"session/destroy/{session}")
        assert await rival.lock("seat", ttl=30).try_acquire() is None
        proxy.count_from_now()
        async with rival.lock("seat", ttl=30, timeout=SOON) as other:
            assert other.fence > lease.fence
            assert proxy.requests < 20
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_free_lock_costs_one_request_and_so_does_its_release(
    flavor: str, consul: Consul, proxy: Proxy
) -> None:
    url = consul.fresh_url().replace(consul.address, proxy.address)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        async with client.lock("warm", ttl=300):
            pass
        proxy.count_from_now()
        async with client.lock("seat", ttl=300):
            assert proxy.requests == 1
        assert proxy.requests == 2

    run(flavor, scenario)


def test_a_session_that_is_being_destroyed_as_unused_carries_no_new_lock(
    flavor: str, consul: Consul
) -> None:
    """An attempt has been given the session, and has not said so yet, when the session is ended."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(consul.fresh_url())
        async with client.lock("warm", ttl=30):
            pass
        engine = client._core.engine
        sessions, timer = engine._sessions, engine._holds.timer  # type: ignore[attr-defined]
        fresh, destroy = sessions.fresh, sessions.destroy
        begun, goes_on, done = list[object](), list[object](), list[object]()

        async def held_up(session: Any) -> None:
            sessions.end(session)
            begun.append(session)
            await lab.until(lambda: goes_on, "the attempt")
            await destroy(session)
            done.append(session)

        async def then_ended(ttl: float) -> Any:
            session, sessions.fresh = await fresh(ttl), fresh
            session.used_at -= 2 * holds.IDLE_S
            timer.expect(0.0)
            await lab.until(lambda: begun, "the end of the session")
            return session

        sessions.fresh, sessions.destroy = then_ended, held_up
        request = Request("seat", client._core.world.owner(), 30.0)
        answer = await engine.acquire(request)
        goes_on.append(True)
        await lab.until(lambda: done, "the session to be destroyed")
        grant = answer if isinstance(answer, Grant) else await engine.acquire(request)
        assert isinstance(grant, Grant)
        assert await engine.release(grant) is True

    run(flavor, scenario)
