"""mode=advisory: those who wait for the same session share a packet, and nobody else's fate.

Each test takes the only session that there is, lets callers gather, and lets go of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import fencelock
from fencelock import aio
from fencelock.engines.mysql import held_locks
from fencelock.engines.mysql.get_lock import GetLock
from fencelock.engines.mysql.tables import ADVISORY
from tests.faults.flavors import Job, Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy

COUNT = 12


class Crowd:
    """A client with one session, which carries a lock already: whoever comes has to share it."""

    def __init__(self, lab: Lab, client: aio.Client, kept: aio.Lease, prefix: str) -> None:
        self.lab = lab
        self.client = client
        self.kept = kept
        self.names = [f"{prefix}:{number}" for number in range(COUNT)]
        mode: Any = client._core.engine._mode  # type: ignore[attr-defined]
        self.holds, self.asks = mode._holds, mode._asks
        (self.session,) = mode._sessions._all

    @classmethod
    async def begin(cls, lab: Lab, url: str, table: str, **options: Any) -> Crowd:
        client = await lab.connect(url, mode="advisory", table=table, pool=2, **options)
        return cls(lab, client, await client.lock(f"{table}:kept").acquire(), table)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The session is in use for the time of a block."""
        turn = self.session.gate.try_enter()
        assert turn is not None
        try:
            yield
        finally:
            self.session.gate.leave(turn)

    async def asking(
        self, names: list[str] | None = None, timeout: float = 0
    ) -> list[Job[aio.Lease | None]]:
        """Have each name asked for, and wait until all are in one round."""
        names = self.names if names is None else names
        jobs = [self.lab.start(self.client.lock(n).try_acquire(timeout=timeout)) for n in names]
        await self._gathered(self.asks._rounds, len(set(names)))
        return jobs

    async def releasing(self, leases: list[aio.Lease]) -> list[Job[bool]]:
        jobs = [self.lab.start(lease.release()) for lease in leases]
        await self._gathered(self.holds._rounds, len(leases))
        return jobs

    async def _gathered(self, rounds: Any, count: int) -> None:
        def gathered() -> bool:
            return [len(shared.wishes) for shared in rounds._open.values()] == [count]

        await self.lab.until(gathered, "all must be in one round")

    async def take(self) -> list[aio.Lease]:
        """Take all names in one packet."""
        with self.busy():
            jobs = await self.asking()
        return [some(await job.result()) for job in jobs]


def some(lease: aio.Lease | None) -> aio.Lease:
    assert lease is not None
    return lease


def sessions_of(server: SqlServer, names: list[str]) -> list[int | None]:
    """Which sessions have these locks, as the server says."""
    columns = ",".join(f"IS_USED_LOCK('{name}')" for name in names)
    return list(server.ask(f"SELECT {columns}")[0])


def test_many_locks_are_taken_and_given_back_in_one_round_trip_each(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_locks, "SHOW_S", 60.0)  # nothing else is to be said meanwhile
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table)
            with crowd.busy():
                jobs = await crowd.asking()
                proxy.count_from_now()
            leases = [some(await job.result()) for job in jobs]
            assert proxy.requests == 1
            assert sessions_of(server, crowd.names) == [crowd.session.number] * COUNT
            fences = {lease.fence for lease in leases}
            assert len(fences) == COUNT
            assert min(fences) > crowd.kept.fence
            with crowd.busy():
                returning = await crowd.releasing(leases)
                proxy.count_from_now()
            assert [await job.result() for job in returning] == [True] * COUNT
            assert proxy.requests == 1
            assert sessions_of(server, crowd.names) == [None] * COUNT
            again = await crowd.take()
            assert min(lease.fence for lease in again) > max(fences)
            for lease in [*again, crowd.kept]:
                assert await lease.release() is True

        run(flavor, scenario)


def test_who_shares_a_packet_may_be_refused_alone(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        other = await lab.connect(server.url(), mode="advisory", table=table)
        theirs = [await other.lock(name).acquire() for name in crowd.names[::3]]
        with crowd.busy():
            jobs = await crowd.asking()
        leases = [await job.result() for job in jobs]
        assert [lease is None for lease in leases] == [n % 3 == 0 for n in range(COUNT)]
        for lease in [*filter(None, leases), *theirs, crowd.kept]:
            assert await lease.release() is True

    run(flavor, scenario)


def test_two_who_ask_for_one_name_do_not_both_get_it(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H66: the server would give it twice to the session of the round."""

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        with crowd.busy():
            jobs = await crowd.asking([*crowd.names, *crowd.names])
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


def test_an_interrupted_packet_leaves_nothing_held(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KILL QUERY comes when all locks were given, and before that was answered."""
    sql_for_all, theirs = GetLock.sql_for_all, f"{table}:theirs"
    # What ends in an error when it is interrupted is not the same on both.
    last = "SLEEP(30)" if server.is_mariadb else f"GET_LOCK('{theirs}',30)"

    def slow(self: GetLock, locks: list[str]) -> str:
        head, tail = sql_for_all(self, locks).rsplit(") g", 1)
        return f"{head},{last}) g{tail}"

    monkeypatch.setattr(GetLock, "sql_for_all", slow)

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        number = crowd.session.number
        with server.connect() as other, other.cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK('{theirs}', 0)")
            with crowd.busy():
                jobs = await crowd.asking()
            all_given = [number] * COUNT
            await lab.until(lambda: sessions_of(server, crowd.names) == all_given, "all given")
            server.ask(f"KILL QUERY {number}")
            assert [await job.result() for job in jobs] == [None] * COUNT  # before it is free
        assert sessions_of(server, crowd.names) == [None] * COUNT
        assert await crowd.kept.release() is True

    run(flavor, scenario)


def test_an_answer_that_is_lost_ends_the_session_and_all_are_asked_for_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H13: nothing is left held by nobody, and nobody holds what the server has not given."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table)
            number = crowd.session.number
            with crowd.busy():
                jobs = await crowd.asking(timeout=20)  # until the server has seen the end
                proxy.lose_next_reply()
            leases = [some(await job.result()) for job in jobs]
            assert number not in sessions_of(server, crowd.names)
            assert None not in sessions_of(server, crowd.names)
            assert not crowd.kept
            for lease in leases:
                assert await lease.release() is True
            assert sessions_of(server, crowd.names) == [None] * COUNT

        run(flavor, scenario)


def test_a_counter_that_lost_its_row_gives_no_lock(
    flavor: str, server: SqlServer, table: str
) -> None:
    """On MySQL: all in the packet are told, the session is ended, and the next one mends it."""
    if server.is_mariadb:
        pytest.skip("MariaDB has a sequence")

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        with crowd.busy():
            jobs = await crowd.asking()
            server.ask(f"DELETE FROM {ADVISORY}_fences")
        for job in jobs:
            with pytest.raises(fencelock.Unavailable, match=f"all {COUNT} locks"):
                await job.result()
        await lab.until(
            lambda: sessions_of(server, crowd.names) == [None] * COUNT, "nothing may be held"
        )
        again = await crowd.client.lock(crowd.names[0]).acquire()
        assert again.fence > crowd.kept.fence
        await again.release()

    run(flavor, scenario)


def test_a_row_that_cannot_be_removed_keeps_no_other_lock(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails for one of those who give back together fails for that one alone."""

    async def scenario(lab: Lab) -> None:
        crowd = await Crowd.begin(lab, server.url(), table)
        leases = await crowd.take()
        farewell = crowd.holds._holders.farewell

        def failing(held_locks: list[Any]) -> str:
            sql: str = farewell(held_locks)
            mine = any(hold.lock == crowd.names[0] for hold in held_locks)
            return f"SELECT 1 FROM {table}_none;{sql}" if mine else sql

        with monkeypatch.context() as patch:
            patch.setattr(crowd.holds._holders, "farewell", failing)
            with crowd.busy():
                jobs = await crowd.releasing(leases)
            with pytest.raises(fencelock.EngineError):
                await jobs[0].result()
            assert [await job.result() for job in jobs[1:]] == [True] * (COUNT - 1)
        held = sessions_of(server, crowd.names)
        assert held == [crowd.session.number] + [None] * (COUNT - 1)
        for lease in (leases[0], crowd.kept):
            assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("when", ["gathering", "asking"])
def test_who_is_cancelled_in_a_round_leaves_no_lock(
    who: str, when: str, server: SqlServer, table: str
) -> None:
    """H09: and the others get theirs."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            crowd = await Crowd.begin(lab, server.url(port=proxy.port), table)
            lost = 0 if who == "leader" else 5
            with crowd.busy():
                tasks = [asyncio.create_task(crowd.client.lock(n).acquire()) for n in crowd.names]
                await crowd._gathered(crowd.asks._rounds, COUNT)
                if when == "gathering":
                    tasks[lost].cancel()
                else:
                    proxy.block()
            if when == "asking":
                await lab.until(lambda: not crowd.asks._rounds._open, "the packet must be sent")
                tasks[lost].cancel()
                await lab.let_pass(0.05)
                proxy.heal()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done.pop(lost), asyncio.CancelledError)
            name = crowd.names.pop(lost)
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
        await lab.until(lambda: _shown(own) == 40, "all holds must be shown")
        assert await client.holders("nobody") == []
        used = "SELECT COUNT(*) FROM information_schema.processlist WHERE user='tester'"
        assert own.ask(used)[0][0] <= 4
        for lease in leases:
            await lease.release()

    run(flavor, scenario)


def _shown(server: SqlServer) -> int:
    return int(server.ask(f"SELECT COUNT(*) FROM {ADVISORY}_holders")[0][0])
