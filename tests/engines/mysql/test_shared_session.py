"""mode=advisory: locks that share a session do not share each other's fate without need.

Each test has a client with one session that carries a lock already: whoever comes has to share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import fencelock
from fencelock import aio
from fencelock._client import policy
from fencelock.engines.mysql.get_lock import GetLockSql
from fencelock.engines.mysql.tables import ADVISORY
from fencelock.model import Busy, Request
from tests.faults.flavors import SOON, Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy

COUNT = 12


class Crowd:
    """A client with one session, which carries a lock already."""

    def __init__(self, lab: Lab, client: aio.Client, kept: aio.Lease, prefix: str) -> None:
        self.lab = lab
        self.client = client
        self.kept = kept
        self.names = [f"{prefix}:{number}" for number in range(COUNT)]
        engine: Any = client._core.engine
        (self.session,) = engine._sessions._all

    @classmethod
    async def begin(cls, lab: Lab, url: str, table: str, ttl: float = 30, **options: Any) -> Crowd:
        options = {"request_timeout": 30, **options}  # nobody gives up while the session is busy
        client = await lab.connect(url, mode="advisory", table=table, pool=2, **options)
        return cls(lab, client, await client.lock(f"{table}:kept", ttl=ttl).acquire(), table)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The session is in use for the time of a block."""
        turn = self.session.mutex.try_acquire()
        assert turn is not None
        try:
            yield
        finally:
            self.session.mutex.release(turn)

    def is_idle(self) -> bool:
        """Whether nobody uses the session, nor has a request under way on it."""
        if (turn := self.session.mutex.try_acquire()) is None:
            return False
        self.session.mutex.release(turn)
        return True

    async def queued(self, count: int) -> None:
        await self.lab.until(lambda: len(self.session.mutex._queue) == count, "all must queue")


def sessions_of(server: SqlServer, names: list[str]) -> list[int | None]:
    """Which sessions have these locks, as the server says."""
    columns = ",".join(f"IS_USED_LOCK('{name}')" for name in names)
    return list(server.ask(f"SELECT {columns}")[0])


def test_many_wait_for_one_session_and_each_gets_its_lock(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        with crowd.busy():
            jobs = [lab.start(crowd.client.lock(n).acquire()) for n in crowd.names]
            await crowd.queued(COUNT)
        leases = [await job.result() for job in jobs]
        assert sessions_of(server, crowd.names) == [crowd.session.number] * COUNT
        fences = {lease.fence for lease in leases}
        assert len(fences) == COUNT
        assert min(fences) > crowd.kept.fence
        with crowd.busy():
            returning = [lab.start(lease.release()) for lease in leases]
            await crowd.queued(COUNT)
        assert [await job.result() for job in returning] == [True] * COUNT
        assert sessions_of(server, crowd.names) == [None] * COUNT
        assert await crowd.kept.release() is True

    run(flavor, scenario)


def test_two_who_ask_for_one_name_do_not_both_get_it(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H66: the server would give it twice to the session."""

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        with crowd.busy():
            asked = [*crowd.names, *crowd.names]
            jobs = [lab.start(crowd.client.lock(n).try_acquire()) for n in asked]
            await crowd.queued(COUNT)
        leases = [lease for job in jobs if (lease := await job.result()) is not None]
        assert sorted(lease.name for lease in leases) == sorted(crowd.names)
        for lease in [*leases, crowd.kept]:
            assert await lease.release() is True
        assert sessions_of(server, crowd.names) == [None] * COUNT

    run(flavor, scenario)


def test_locks_of_other_ttls_go_to_another_session(
    flavor: str, server: SqlServer, table: str
) -> None:
    """The server ends a session after the ttl of its locks: it has one limit for all of them."""

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        brief = await crowd.client.lock(f"{table}:brief", ttl=5).acquire()
        mine, its = sessions_of(server, [f"{table}:kept", f"{table}:brief"])
        assert mine != its
        for lease in (brief, crowd.kept):
            assert await lease.release() is True

    run(flavor, scenario)


def test_an_interrupted_statement_leaves_nothing_held(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KILL QUERY comes when the lock was given, and before that was answered."""
    acquire, theirs = GetLockSql.acquire, f"{table}:theirs"
    # What ends in an error when it is interrupted is not the same on both.
    last = "SLEEP(30)" if server.is_mariadb else f"GET_LOCK('{theirs}',30)"

    def slow(self: GetLockSql, lock: str, wait: float) -> str:
        sql = acquire(self, lock, wait)
        if server.is_mariadb:
            return sql.replace(")=1,", f")=1 AND {last} IS NOT NULL,", 1)
        return sql.replace(";", f"+{last};", 1)

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        number, name = crowd.session.number, crowd.names[0]
        with monkeypatch.context() as patch, server.connect() as other, other.cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK('{theirs}', 0)")
            patch.setattr(GetLockSql, "acquire", slow)
            engine: Any = crowd.client._core.engine
            job = lab.start(engine.acquire(Request(name, "0" * 32, 30.0)))
            await lab.until(lambda: sessions_of(server, [name]) == [number], "the lock given")
            server.ask(f"KILL QUERY {number}")
            assert isinstance(await job.result(), Busy)
        assert sessions_of(server, [name]) == [None]
        assert await crowd.kept.release() is True

    run(flavor, scenario)


def test_an_answer_that_is_lost_ends_the_session_and_the_lock_is_asked_for_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H13: nothing is left held by nobody, and nobody holds what the server has not given."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table)
            number, name = crowd.session.number, crowd.names[0]
            proxy.lose_next_reply()
            lease = await crowd.client.lock(name, timeout=20).acquire()
            assert sessions_of(server, [name]) not in ([number], [None])
            assert not crowd.kept
            assert await lease.release() is True
            assert sessions_of(server, [name]) == [None]

        run(flavor, scenario)


def test_a_counter_that_lost_its_row_gives_no_lock(
    flavor: str, server: SqlServer, table: str
) -> None:
    """On MySQL: the caller is told, the session is ended, and the next one mends it."""
    if server.is_mariadb:
        pytest.skip("MariaDB has a sequence")

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        name = crowd.names[0]
        server.ask(f"DELETE FROM {ADVISORY}_fences")
        with pytest.raises(fencelock.Unavailable, match="counter of fences"):
            await crowd.client.lock(name).acquire(timeout=0)
        await lab.until(lambda: sessions_of(server, [name]) == [None], "nothing may be held")
        again = await crowd.client.lock(name).acquire()
        assert again.fence > crowd.kept.fence
        await again.release()

    run(flavor, scenario)


@pytest.mark.parametrize("when", ["queueing", "asking"])
def test_who_is_cancelled_leaves_no_lock(when: str, server: SqlServer, table: str) -> None:
    """H09: and the others get theirs."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table)
            with crowd.busy():
                tasks = [asyncio.create_task(crowd.client.lock(n).acquire()) for n in crowd.names]
                await crowd.queued(COUNT)
                if when == "queueing":
                    tasks[0].cancel()
                else:
                    proxy.block()
            if when == "asking":
                await lab.until(proxy.waiting, "the first request")
                tasks[0].cancel()
                await lab.let_pass(0.05)
                proxy.heal()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done.pop(0), asyncio.CancelledError)
            name = crowd.names.pop(0)
            assert sessions_of(server, [name]) == [None]
            assert sessions_of(server, crowd.names) == [crowd.session.number] * (COUNT - 1)
            for lease in [*done, crowd.kept]:
                assert isinstance(lease, aio.Lease)
                assert await lease.release() is True

        run("asyncio", scenario)


def test_a_client_uses_no_more_connections_than_its_pool_has(
    flavor: str, own: SqlServer, table: str
) -> None:
    """The one that looks and shows who holds is among them."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode="advisory", table=table, pool=4)
        asked = [lab.start(client.lock(f"{table}:{n}").acquire()) for n in range(40)]
        leases = [await one.result(30) for one in asked]
        await lab.until(lambda: _shown(own, table) == 40, "all holds must be shown")
        assert await client.holders("nobody") == []
        used = "SELECT COUNT(*) FROM information_schema.processlist WHERE user='tester'"
        assert own.ask(used)[0][0] <= 4
        for lease in leases:
            await lease.release()

    run(flavor, scenario)


def _shown(server: SqlServer, table: str) -> int:
    rows = server.ask(f"SELECT COUNT(*) FROM {ADVISORY}_holders WHERE name LIKE '{table}:%'")
    return int(rows[0][0])


@contextmanager
def silent(proxy: Proxy) -> Iterator[None]:
    """The server is silent for the time of a block."""
    proxy.block()
    try:
        yield
    finally:
        proxy.heal()


def test_a_caller_whose_time_is_over_leaves_the_session_to_the_others(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Nothing is left held for it, either."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table, ttl=600)
            number, name = crowd.session.number, crowd.names[0]
            with silent(proxy):
                with pytest.raises(fencelock.FencelockError):
                    await crowd.client.lock(name, ttl=600).try_acquire()
                assert crowd.kept
            await lab.until(crowd.is_idle, "what was asked for in silence must have been answered")
            await lab.until(lambda: sessions_of(server, [name]) == [None], "nothing may be held")
            again = await crowd.client.lock(name, ttl=600, timeout=20).acquire()
            assert sessions_of(server, [f"{table}:kept", name]) == [number] * 2
            for lease in (again, crowd.kept):
                assert await lease.release() is True

        run(flavor, scenario)


def test_a_release_that_is_not_answered_in_time_goes_on_and_costs_the_others_nothing(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "RELEASE_S", 0.2)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table, ttl=600)
            name = crowd.names[0]
            lease = await crowd.client.lock(name, ttl=600).acquire()
            with silent(proxy), pytest.raises(fencelock.OutcomeUnknown):
                await lease.release()
            await lab.until(lambda: sessions_of(server, [name]) == [None], "it must be released")
            crowd.kept.check()
            assert await crowd.kept.release() is True

        run("sync", scenario)


def test_a_session_that_stays_silent_ends_with_its_locks(
    flavor: str, server: SqlServer, table: str
) -> None:
    """What was asked for on it is held by nobody, and can be had from another session."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            url = server.url(port=proxy.port)
            crowd = await Crowd.begin(lab, url, table, ttl=4, request_timeout=2)
            name = crowd.names[0]
            proxy.block()
            with pytest.raises(fencelock.FencelockError):
                await crowd.client.lock(name, ttl=4).try_acquire()
            assert await crowd.kept.lost.wait(SOON)
            engine: Any = crowd.client._core.engine
            await lab.until(lambda: crowd.session not in engine._sessions._all, "it must end")
            proxy.reset()
            proxy.heal()
            lease = await crowd.client.lock(name, ttl=600, timeout=SOON).acquire()
            assert await lease.release() is True

        run(flavor, scenario)


def test_a_release_that_is_cancelled_goes_on_and_costs_the_others_nothing(
    server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table, ttl=600)
            engine: Any = crowd.client._core.engine
            name = crowd.names[0]
            lease = await crowd.client.lock(name, ttl=600).acquire()
            with silent(proxy):
                task = asyncio.create_task(engine.release(lease._hold.grant))
                await lab.until(proxy.waiting, "the request")
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await lab.until(lambda: sessions_of(server, [name]) == [None], "it must be released")
            crowd.kept.check()
            for one in (lease, crowd.kept):
                assert await one.release() is True

        run("asyncio", scenario)
