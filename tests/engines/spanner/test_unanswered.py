"""Requests without an answer: the same owner asks again, in a transaction that comes after."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.spanner.wire.errors import Aborted, SessionMissing
from fencelock.judge.torture.proxy import TO_CLIENT
from fencelock.model import Busy, Grant, Request
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.servers.spanner import Spanner

TTL_S = 60.0
LATER = 40  # transactions of a session, after which the emulator has forgotten one


def through(url: str, server: Spanner, proxy: Proxy) -> str:
    return url.replace(server.address, proxy.address)


class Losing:
    """Have the answers to some requests be lost: the connection is cut once they were sent."""

    def __init__(self, client: Any, proxy: Proxy) -> None:
        self._wire = client._core.engine._database.wire
        self._proxy = proxy
        self._call = self._wire._call
        self.lose = list[str]()
        self.calls = list[str]()
        self._wire._call = self._lossy

    async def _lossy(self, method: str, request: dict[str, Any]) -> Any:
        self.calls.append(method)
        if method in self.lose:
            self.lose.remove(method)
            self._proxy.lose_next_reply(b"seat")
        return await self._call(method, request)


def test_a_free_lock_costs_two_requests_and_so_does_its_release(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy))
        losing = Losing(client, proxy)
        async with client.lock("seat", ttl=TTL_S):
            pass
        assert losing.calls == ["ExecuteSql", "Commit", "ExecuteSql", "Commit"]

    run(flavor, scenario)


def test_a_lost_answer_to_an_acquire_is_resolved_by_asking_for_the_same_owner(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    """H13, H16: the grant whose answer was lost is found, with the fence that it was given."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy))
        engine, losing = client._core.engine, Losing(client, proxy)
        request = Request("seat", client._core.world.owner(), TTL_S)
        losing.lose = ["Commit"]
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        assert proxy.lost == 1
        assert losing.calls == ["ExecuteSql", "Commit"]  # nothing is repeated behind our back
        (held,) = await client.holders("seat")
        grant = await engine.acquire(request)
        assert isinstance(grant, Grant)
        assert grant.fence == held.fence
        assert await engine.release(grant)
        losing.lose = ["Commit"]
        async with client.lock("seat", ttl=TTL_S, timeout=SOON) as lease:
            assert lease.fence > grant.fence
        assert proxy.lost == 2
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_a_lost_answer_to_a_read_is_asked_for_once_more(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    """H16: nothing was done, and the session in which something may be open is reset."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy))
        engine, losing = client._core.engine, Losing(client, proxy)
        losing.lose = ["ExecuteSql"]
        async with client.lock("seat", ttl=TTL_S):
            assert losing.calls == ["ExecuteSql", "ExecuteSql", "Commit"]
        losing.calls.clear()
        losing.lose = ["ExecuteSql", "ExecuteSql"]
        with pytest.raises(Unavailable, match="nothing was done"):
            await engine.acquire(Request("seat", client._core.world.owner(), TTL_S))
        assert proxy.lost == 3
        await lab.until(lambda: "DeleteSession" in losing.calls, "the session to be reset")
        assert [*dict.fromkeys(losing.calls)] == [
            *("ExecuteSql", "BeginTransaction", "Rollback", "DeleteSession"),
        ]
        rival = await lab.connect(locks_url)
        async with rival.lock("seat", ttl=TTL_S, timeout=SOON):
            assert await client.lock("seat", ttl=TTL_S).try_acquire() is None

    run(flavor, scenario)


def test_an_answer_that_comes_after_its_lease_has_ended_is_not_believed(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    """H13: granted at once, heard of too late. What is handed out is a lease that holds."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy), request_timeout=SOON)
        other = await lab.connect(locks_url)
        wire: Any = client._core.engine._database.wire  # type: ignore[attr-defined]
        call, blocked = wire._call, list[bool]()

        async def late(method: str, request: dict[str, Any]) -> Any:
            if method == "Commit" and not blocked:
                blocked.append(True)
                proxy.block(TO_CLIENT)
            return await call(method, request)

        wire._call = late
        acquiring = lab.start(client.lock("seat", ttl=4, renew=False).acquire(timeout=SOON))
        (first,) = await lab.until_held(other, "seat")
        taken = await other.lock("seat").acquire(timeout=SOON)
        await taken.release()
        proxy.heal()
        lease = await acquiring.result()
        assert lease.fence > taken.fence > first.fence
        await lease.release()

    run(flavor, scenario)


def test_a_connection_that_fell_silent_is_replaced(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    """H13: it stays open and answers nothing any more; others would be answered."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy), request_timeout=1)
        proxy.lose_next_reply(b"seat", then_cut=False)
        async with client.lock("seat", ttl=TTL_S, timeout=SOON):
            assert proxy.lost == 1
            assert proxy.connections == 2
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_a_lost_answer_to_a_renewal_or_a_release_does_no_harm(
    flavor: str, locks_url: str, server: Spanner, proxy: Proxy
) -> None:
    """H14, H15."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(locks_url, server, proxy))
        losing = Losing(client, proxy)
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        for method in ("ExecuteSql", "Commit"):
            losing.lose = [method]
            make_due(lease)
            await lab.until(lambda: not losing.lose, "a renewal without an answer")
            await lab.until_renewed(lease)
        losing.lose = ["Commit"]
        assert await lease.release()
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_a_commit_that_comes_late_does_nothing_after_it_was_taken_back(
    flavor: str, locks_url: str
) -> None:
    """H13: its transaction is invalid once the attempt was withdrawn, and grants nothing."""

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(locks_url), await lab.connect(locks_url)
        engine = client._core.engine
        wire: Any = engine._database.wire  # type: ignore[attr-defined]
        call, sent = wire._call, list[dict[str, Any]]()

        async def held_back(method: str, request: dict[str, Any]) -> Any:
            if method == "Commit" and not sent:
                sent.append(request)
                raise OutcomeUnknown("no answer")
            return await call(method, request)

        wire._call = held_back
        request = Request("seat", client._core.world.owner(), TTL_S)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        await engine.withdraw(request)
        with pytest.raises(SessionMissing):  # and not because another has aborted it
            await call("Commit", sent[0])
        assert not await rival.holders("seat")
        async with rival.lock("seat", ttl=TTL_S):
            pass

    run(flavor, scenario)


def test_a_transaction_that_others_abort_is_tried_again_and_not_for_ever(
    flavor: str, locks_url: str
) -> None:
    """H16: a deadline bounds it, and nothing was done."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(locks_url, request_timeout=0.5)
        wire: Any = client._core.engine._database.wire  # type: ignore[attr-defined]
        call, times = wire._call, [3]

        async def aborted(method: str, request: dict[str, Any]) -> Any:
            # At the end of its time, a request that the server has to answer could be late.
            if times[0] == 0 or (method != "Commit" and times[0] <= 3):
                return await call(method, request)
            times[0] -= 1
            raise Aborted("met another")

        wire._call = aborted
        lease = await client.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
        assert times == [0]
        times[0] = 10_000
        with pytest.raises(Unavailable, match="transactions conflicted with others"):
            await lease.renew()
        assert 0 < times[0] < 9_999
        times[0] = 0
        assert await lease.release()

    run(flavor, scenario)


def test_a_frozen_server_is_told_and_nothing_is_left(flavor: str, own_server: Spanner) -> None:
    """H81: whoever asks gets an error in time; later the lock is free."""

    async def scenario(lab: Lab) -> None:
        url = own_server.fresh_url()
        client = await lab.connect(url, request_timeout=0.5)
        async with client.lock("warm", ttl=TTL_S):
            pass
        own_server.pause()
        try:
            with pytest.raises((OutcomeUnknown, Unavailable)):
                await client.lock("seat", ttl=TTL_S).acquire(timeout=1)
        finally:
            own_server.resume()
        rival = await lab.connect(url)
        async with rival.lock("seat", ttl=TTL_S, timeout=SOON):
            pass
        async with client.lock("seat", ttl=TTL_S, timeout=SOON):
            pass

    run(flavor, scenario)


def test_a_holder_gives_up_in_time_while_the_server_stands_still(
    flavor: str, own_server: Spanner
) -> None:
    """H39: it counts from before its request was sent; then another is granted the lock."""

    async def scenario(lab: Lab) -> None:
        url = own_server.fresh_url()
        one, other = await lab.connect(url), await lab.connect(url)
        lease = await one.lock("seat", ttl=2.0).acquire()
        own_server.pause()
        try:
            assert await lease.lost.wait(SOON)
        finally:
            own_server.resume()
        async with other.lock("seat", ttl=TTL_S, timeout=SOON) as second:
            assert second.fence > lease.fence

    run(flavor, scenario)


def test_a_wait_that_is_cancelled_leaves_nothing(flavor: str, locks_url: str) -> None:
    """H09, H31: neither a row nor an open transaction nor a session that nobody gets."""

    async def scenario(lab: Lab) -> None:
        holder, waiter = await lab.connect(locks_url), await lab.connect(locks_url, pool=1)
        for _ in range(3):
            lease = await holder.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
            assert await waiter.lock("seat", ttl=TTL_S).try_acquire(timeout=0.2) is None
            assert await lease.release()
            assert not await waiter.holders("seat")
        async with waiter.lock("seat", ttl=TTL_S, timeout=SOON):
            engine = holder._core.engine
            request = Request("seat", holder._core.world.owner(), TTL_S)
            assert isinstance(await engine.acquire(request), Busy)

    run(flavor, scenario)


def test_a_server_that_is_not_there_is_said_to_be(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        url = f"spanner://project/instance/database?emulator=127.0.0.1:{free_port()}"
        with pytest.raises(Unavailable, match="cannot be reached; nothing was done"):
            _ = await lab.connect(url)

    run(flavor, scenario)


def test_a_session_is_reset_although_a_late_request_begins_a_transaction_there(
    flavor: str, locks_url: str
) -> None:
    """What is begun last ends the ones before, and itself with the session."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(locks_url)
        await (await client.lock("seat", ttl=TTL_S).acquire()).release()
        wire: Any = client._core.engine._database.wire  # type: ignore[attr-defined]
        call, late = wire._call, ["a request"]

        async def overtaken(method: str, fields: dict[str, Any]) -> Any:
            answer = await call(method, fields)
            if method == "BeginTransaction" and late:
                late.pop()
                for _ in range(LATER):
                    newer = await call(method, fields)
                    await wire.rollback(fields["session"], newer.id)
            return answer

        session = await wire.create_session()
        wire._call = overtaken
        await wire.reset(session)
        assert not late
        with pytest.raises(SessionMissing):
            await wire.rollback(session, b"1")

    run(flavor, scenario)
