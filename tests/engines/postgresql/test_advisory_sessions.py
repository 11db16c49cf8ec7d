"""The sessions that hold advisory locks: they end, come back, are cut off and are shared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencelock import OutcomeUnknown, SessionEnded, Unavailable
from fencelock.model import Busy, Grant, Request
from tests.engines.postgresql.advisory import via
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy


@pytest.mark.parametrize("how", ["terminated", "reset"])
def test_a_holder_whose_session_ends_is_told(how: str, flavor: str, own_server: Postgresql) -> None:
    """H61, and the driver's connection would still look open."""
    with Proxy(own_server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(via(proxy))
            rival = await lab.connect(own_server.url("mode=advisory"))
            lease = await client.lock("seat", ttl=1.5).acquire()
            if how == "terminated":
                own_server.psql(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                    " AND objsubid = 1"
                )
            else:
                proxy.reset()
            other = await rival.lock("seat", ttl=30, timeout=SOON).acquire()
            await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
            with pytest.raises(SessionEnded):
                lease.check()
            assert other.fence > lease.fence
            assert await lease.release() is False
            other.check()
            await other.release()
            async with client.lock("seat", timeout=SOON) as again:  # by a new session
                assert again.fence > other.fence

        run(flavor, scenario)


def test_a_session_that_came_back_does_not_hold_what_the_old_one_held(
    flavor: str, proxy: Proxy
) -> None:
    """H69: a silent reconnect is a new session."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy))
        lease = await client.lock("reconnected", ttl=30).acquire()
        proxy.reset()
        async with client.lock("another", timeout=SOON):  # the client works again
            with pytest.raises(SessionEnded):
                await lease.renew()
        assert not lease

    run(flavor, scenario)


def test_a_partitioned_holder_is_freed_within_its_ttl(
    flavor: str, server: Postgresql, proxy: Proxy
) -> None:
    """H62: no word comes through in either direction, and no connection is reset."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, "request_timeout=1"))
        rival = await lab.connect(server.url("mode=advisory"))
        lease = await client.lock("partitioned", ttl=1.0).acquire()
        proxy.block()
        other = await rival.lock("partitioned", ttl=30, timeout=SOON).acquire()
        assert not lease, "two leases on one name were true at once"
        proxy.heal()
        assert await lease.release() is False
        other.check()
        await other.release()

    run(flavor, scenario)


def test_a_client_that_stops_renewing_one_lease_keeps_the_others(
    flavor: str, server: Postgresql
) -> None:
    """Leases of one session end apart from each other."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        rival = await lab.connect(server.url("mode=advisory"))
        kept = await client.lock("kept", ttl=30).acquire()
        brief = await client.lock("brief", ttl=0.3, renew=False).acquire()
        other = await rival.lock("brief", ttl=30, timeout=SOON).acquire()
        assert not brief
        await lab.let_pass(1.5)  # past what the server would have allowed the session
        await kept.renew()
        kept.check()
        await other.release()
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_session_that_is_let_rest_is_nobodys_to_wait_on(server: Postgresql) -> None:
    """Two statements that met on one session would get each other's answers."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        rival = await lab.connect(server.url("mode=advisory"))
        sessions: Any = rival._core.engine._sessions  # type: ignore[attr-defined]
        for steps in range(12):
            lease = await client.lock("seat", ttl=30).acquire()
            assert await rival.lock("seat", ttl=30).try_acquire(timeout=0.03) is None
            resting = lab.start(sessions._reset_idle_timeouts())
            for _ in range(steps):
                await asyncio.sleep(0)
            waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=SOON))
            await lease.release()
            await resting.result()
            await (await waiter.result()).release()

    run("asyncio", scenario)


def test_a_short_try_that_fails_does_not_end_longer_leases(
    flavor: str, server: Postgresql, table: str
) -> None:
    """They share a session, which the server ends when it is silent for the shortest of them."""

    async def scenario(lab: Lab) -> None:
        url = server.url(f"mode=advisory&table={table}")
        other, client = await lab.connect(url), await lab.connect(url)
        long = await client.lock("long", ttl=60).acquire()
        async with other.lock("taken"):
            for _ in range(2):
                assert await client.lock("taken", ttl=0.5).try_acquire() is None
        await lab.let_pass(2.0)  # longer than the server would be patient with the short one
        long.check()
        short = await client.lock("short", ttl=0.5).acquire()
        await short.release()
        await lab.let_pass(2.0)
        long.check()
        assert await long.release() is True

    run(flavor, scenario)


def test_a_caller_whose_time_is_over_leaves_the_session_to_the_other_leases(
    flavor: str, own_server: Postgresql
) -> None:
    """The server is silent for longer than that caller waits, and for less than the others do."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url("mode=advisory&request_timeout=30"))
        rival = await lab.connect(own_server.url("mode=advisory"))
        kept = await client.lock("kept", ttl=60).acquire()
        async with client.lock("free", ttl=60):  # the statement of a try is prepared now
            pass
        await lab.until_held(client, "kept")  # from now on nothing is sent by itself
        own_server.pause()
        try:
            for name in ("one", "two"):  # the second finds the first under way
                with pytest.raises((OutcomeUnknown, Unavailable)):
                    await client.lock(name, ttl=60).try_acquire()
        finally:
            own_server.resume()
        for name in ("one", "two"):  # what the server granted meanwhile is given back
            async with rival.lock(name, timeout=SOON):
                pass
        await lab.until(lambda: not client.owed, "all to be taken back")
        await kept.renew()
        kept.check()
        async with client.lock("one", timeout=0):
            assert await rival.lock("one").try_acquire() is None
        async with rival.lock("one", timeout=0):
            pass
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_try_that_is_repeated_after_no_reply_is_granted_once(own_server: Postgresql) -> None:
    """A session would be granted the same lock again, and would keep it after its release."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url("mode=advisory&request_timeout=30"))
        rival = await lab.connect(own_server.url("mode=advisory"))
        kept = await client.lock("kept", ttl=60).acquire()
        async with client.lock("free", ttl=60):  # the statement of a try is prepared now
            pass
        await lab.until_held(client, "kept")  # from now on nothing is sent by itself
        core, request = client._core, Request("seat", "owner", 60.0)
        own_server.pause()
        try:
            with core.world.until(core.world.now() + 0.3), pytest.raises(OutcomeUnknown):
                await core.engine.acquire(request)
            assert isinstance(await core.engine.acquire(Request("seat", "other", 60.0)), Busy)
        finally:
            own_server.resume()
        grant = await core.engine.acquire(request)
        assert isinstance(grant, Grant)
        assert await rival.lock("seat").try_acquire() is None
        assert await core.engine.release(grant) is True
        async with rival.lock("seat", timeout=0):
            pass
        assert await kept.release() is True

    run("sync", scenario)
