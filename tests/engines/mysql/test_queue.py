"""mode=lease: who joins a queue and who gives a lock back do not wait for each other, and meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import fencelock
from fencelock.engines.mysql import lease_sql
from fencelock.engines.mysql.lease_sql import LeaseSql
from fencelock.engines.mysql.wire.pool import Pool
from fencelock.model import Busy, Grant, Request
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import DATABASE, SqlServer
from tests.servers.proxy import Proxy

HOLDER, FIRST, SECOND = [Request("seat", letter * 32, 60.0) for letter in "abc"]


class Store:
    """The tables of one test, and the packets of the engine, run one statement at a time."""

    def __init__(self, server: SqlServer, table: str) -> None:
        with fencelock.connect(server.url(), table=table):
            pass  # the tables are there
        self._server, self.table = server, table
        self.sql = LeaseSql(table)
        self.connection, self.other = self._connect(), self._connect()

    def _connect(self) -> Any:
        return self._server.connect(
            init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        )

    def close(self) -> None:
        self.connection.close()
        self.other.close()

    def ask(self, packet: str, connection: Any = None) -> list[Any]:
        """The rows, or the insert id, for each statement. Nobody's sleep is ended."""
        answers = []
        with (connection or self.connection).cursor() as cursor:
            for statement in packet.split(";"):
                if not statement.startswith("KILL"):
                    cursor.execute(statement)
                    answers.append(list(cursor.fetchall()) or cursor.lastrowid or 0)
        return answers

    def hold(self) -> None:
        """The holder has it, and the flag is up."""
        assert self.ask(self.sql.take(HOLDER))[0]
        self.ask(f"UPDATE {self.table}_locks SET queued=1")

    def flag(self) -> int:
        ((up,),) = self._server.ask(f"SELECT queued FROM {DATABASE}.{self.table}_locks")
        return int(up)


@pytest.fixture
def store(server: SqlServer, table: str) -> Iterator[Store]:
    with closing(Store(server, table)) as store:
        yield store


def leaving(store: Store) -> tuple[str, str]:
    """The packet by which the holder leaves, up to its commit, and what follows."""
    before, mark, after = store.sql.leave("seat", HOLDER.owner).partition(";COMMIT")
    return before, mark[1:] + after


def test_who_joins_while_the_lock_is_given_back_is_served(store: Store) -> None:
    """The one who leaves has looked and saw nobody; the one who joins saw the lock held."""
    store.hold()
    before, after = leaving(store)
    store.ask(before)
    place, ahead = store.ask(store.sql.join_queue(FIRST, "inbox", True), store.other)
    assert place, "it must not wait for the row"
    assert ahead == [(0,)], "it stands in line"
    store.ask(after)
    assert store.ask(store.sql.take(SECOND), store.other) == [0], "nobody may overtake"
    assert store.ask(store.sql.lower_flag("seat"))[-2] == [(FIRST.owner.encode(),)]
    assert store.flag() == 1
    assert store.ask(store.sql.claim(FIRST), store.other)[1] > 0


def test_who_joins_too_late_is_not_told_that_it_waits(store: Store) -> None:
    """Its place is committed only when the one who leaves has lowered the flag."""
    store.hold()
    join, look = store.sql.join_queue(FIRST, "inbox", True).split(";")
    before, after = leaving(store)
    store.ask(f"{before};{after}")
    assert store.ask(f"{join};{look}") == [0, 0], "the lock is free"
    store.ask(store.sql.lower_flag("seat"))
    assert store.flag() == 0
    assert store.ask(store.sql.take(SECOND))[0] > 0


def test_who_has_joined_is_not_told_so_when_the_flag_is_down(store: Store) -> None:
    """Between the two statements of the one who joins, the lock was given back and taken."""
    store.hold()
    join, look = store.sql.join_queue(FIRST, "inbox", True).split(";")
    assert store.ask(join)[0]
    store.ask(f"DELETE FROM {store.table}_locks")  # as if all had gone on without it
    assert store.ask(store.sql.take(SECOND))[0] > 0
    assert store.ask(look) == [0], "it has to take its turn"


@pytest.mark.parametrize("free", [False, True])
def test_the_flag_is_lowered_on_a_free_lock_only(store: Store, free: bool) -> None:
    store.hold()
    if free:
        store.ask(store.sql.leave("seat", HOLDER.owner))
        assert store.flag() == 1, "not in the transaction that frees it"
    store.ask(store.sql.lower_flag("seat"))
    assert store.flag() == (0 if free else 1)


STATES = {
    "held": "",
    "free": "UPDATE {t}_locks SET owner=''",
    "handed": "UPDATE {t}_locks SET owner='" + FIRST.owner + "',claimed=0",
    "handed to another": "UPDATE {t}_locks SET owner='x',claimed=0",
    "over": "UPDATE {t}_locks SET expires_at=1",
    "over and renewed": "UPDATE {t}_locks SET expires_at=1;INSERT INTO {t}_renewals"
    " VALUES('" + HOLDER.owner + "',1,1<<60)",
    "no row": "DELETE FROM {t}_locks",
    "not in line": "DELETE FROM {t}_waiters",
}
STIRRING = {"free", "handed", "over", "no row"}


@pytest.mark.parametrize("state", STATES)
def test_one_waiter_hears_what_many_would(store: Store, table: str, state: str) -> None:
    store.hold()
    store.ask(store.sql.join_queue(FIRST, "inbox", True))
    for statement in filter(None, STATES[state].format(t=table).split(";")):
        store.ask(statement)
    called = FIRST.owner.encode() if state in STIRRING else None
    for packet in (store.sql.listen("inbox", 0.0), store.sql.listen_for(FIRST.owner, 0.0)):
        assert store.ask(packet) == [[(called, 0)]]


def test_joining_does_not_wait_for_who_has_the_row(
    flavor: str, server: SqlServer, table: str
) -> None:
    """A transaction that verifies a lease has its row for as long as it likes."""

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        lease = await client.lock("seat").acquire()
        waiters = [lab.start(other.lock("seat", timeout=30).acquire())]
        engine: Any = other._core.engine
        await lab.until(lambda: engine._contended.get("seat"), "it must know of the queue")
        connection = server.connect()
        connection.begin()
        with connection.cursor() as cursor:  # as fencelock.sql.verify() does
            cursor.execute(f"SELECT fence FROM {table}_locks LOCK IN SHARE MODE")
        waiters.append(lab.start(other.lock("seat", timeout=30).acquire()))
        await lab.until_queued(client, "seat", 2)
        connection.rollback()
        connection.close()
        await lease.release()
        for waiter in waiters:
            await (await waiter.result()).release()

    run(flavor, scenario)


def test_after_a_queue_a_lock_is_one_round_trip_each_way_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url(port=proxy.port), table=table)
            other = await lab.connect(server.url(), table=table)
            lease = await client.lock("seat", ttl=60).acquire()
            waiter = lab.start(other.lock("seat", timeout=30).acquire())
            await lab.until_queued(client, "seat", 1)
            await lease.release()
            await (await waiter.result()).release()
            proxy.count_from_now()
            lease = await client.lock("seat", ttl=60).acquire()
            assert proxy.requests == 1
            assert await lease.release() is True
            assert proxy.requests == 2

        run(flavor, scenario)


def test_a_turn_is_three_packets_with_eleven_statements(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passed on, claimed, and joined again; besides, whoever waits sleeps in one statement."""
    packets: list[str] = []
    query = Pool.query

    async def listed(self: Pool, sql: str, wakes: bool = False) -> Any:
        if not sql.startswith("SELECT"):  # who looks from outside
            packets.append(sql)
        return await query(self, sql, wakes)

    monkeypatch.setattr(Pool, "query", listed)

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(server.url(), table=table) for _ in range(3)]
        lease = await clients[0].lock("seat").acquire()
        waiters = []
        for client in clients[1:]:
            waiters.append(lab.start(client.lock("seat", timeout=30).acquire()))
            await lab.until_queued(client, "seat", len(waiters))
        turns: list[tuple[int, int]] = []
        for number in range(9):
            packets.clear()
            await lease.release()
            waiters.append(lab.start(clients[number % 3].lock("seat", timeout=30).acquire()))
            lease = await waiters.pop(0).result()
            await lab.until_queued(clients[0], "seat", 2)
            turns.append((len(packets), sum(packet.count(";") + 1 for packet in packets)))
        # By the fourth turn each has seen that others wait. A machine that stalls may let one of
        # them look once more.
        assert min(turns[3:]) == (3, 11)
        await lease.release()
        for waiter in waiters:
            await (await waiter.result()).release()

    run(flavor, scenario)


def test_waiters_are_told_how_many_stand_before_them(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        engine = client._core.engine
        requests = [Request("seat", f"{number:032x}", 60.0, queue=True) for number in range(3)]
        grant = await engine.acquire(HOLDER)
        assert isinstance(grant, Grant)
        for number, request in enumerate(requests):
            await engine.watch(request, client._core.world.signal())
            answer = await engine.acquire(request)
            assert isinstance(answer, Busy)
            assert (answer.position, answer.queued) == (number, True)
        for request in requests:
            await engine.unwatch(request)
            await engine.withdraw(request)
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_dead_waiters_are_passed_over_together(store: Store, table: str) -> None:
    """A hand-over that nobody claims costs its half second once, not once for each of them."""
    store.hold()
    dead = [HOLDER._replace(owner=f"{number:032x}") for number in range(6)]
    for number, request in enumerate(dead):  # three clients without a session, two waiters each
        store.ask(store.sql.join_queue(request, f"dead-{number % 3}", True))
    store.ask("DO GET_LOCK('fencelock:live',0)", store.other)
    store.ask(store.sql.join_queue(FIRST, "live", True), store.other)
    store.ask(store.sql.leave("seat", HOLDER.owner))
    store.ask(f"UPDATE {table}_locks SET expires_at=1")  # nobody has claimed it
    turn = store.ask(store.sql.queue_or_take(FIRST._replace(queue=True), "live"), store.other)
    assert turn[-2][0][0] == 1, "it is the turn of the one who lives"


def test_a_client_that_was_too_late_stands_in_line_again(store: Store, table: str) -> None:
    """All its waiters were passed over with the one that did not claim."""
    store.hold()
    for request in (FIRST, SECOND):
        store.ask(store.sql.join_queue(request, "slow", True))
    store.ask(store.sql.leave("seat", HOLDER.owner))
    store.ask(f"UPDATE {table}_locks SET expires_at=1")
    passed = f"SELECT COUNT(*) FROM {table}_waiters WHERE lapsed=1"
    store.ask(store.sql.queue_or_take(HOLDER, ""), store.other)
    assert store.ask(passed) == [[(2,)]]
    store.ask(store.sql.heartbeat("slow", [FIRST.owner, SECOND.owner]))
    assert store.ask(passed) == [[(0,)]]


@pytest.mark.parametrize("waiters", [1, 3])
def test_what_is_handed_to_one_who_has_left_is_given_back_at_once(
    flavor: str, server: SqlServer, table: str, waiters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client lives, and could not take its place in the queue away when it gave up."""
    monkeypatch.setattr(lease_sql, "CLAIM_US", 60_000_000)  # else it would lapse soon

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        lease = await client.lock("seat").acquire()
        engine = other._core.engine
        for number in range(20):
            stray = Request("seat", f"{number:032x}", 30.0, queue=True)
            await engine.watch(stray, other._core.world.signal())
            await engine.acquire(stray)
            await engine.unwatch(stray)
        waiting = [lab.start(other.lock("seat", timeout=30).acquire()) for _ in range(waiters)]
        await lab.until_queued(client, "seat", 20 + waiters)
        await lease.release()
        for _ in range(waiters):
            await lab.until(lambda: any(one.done() for one in waiting), "a live one must have it")
            (held,) = [one for one in waiting if one.done()]
            waiting.remove(held)
            await (await held.result()).release()
        assert (await client.inspect("seat")).waiters == ()

    run(flavor, scenario)


def test_what_is_handed_to_one_who_has_left_is_found_without_a_wake_up(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up that comes between two sleeps is lost: the only waiter of a client goes on."""
    monkeypatch.setattr(lease_sql, "CLAIM_US", 60_000_000)  # else it would lapse soon

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        lease = await client.lock("seat").acquire()
        engine = other._core.engine
        stray = Request("seat", "5" * 32, 30.0, queue=True)
        await engine.watch(stray, other._core.world.signal())
        await engine.acquire(stray)
        await engine.unwatch(stray)
        waiting = lab.start(other.lock("seat", timeout=30).acquire())
        await lab.until_queued(client, "seat", 2)
        sql = client._core.engine._sql  # type: ignore[attr-defined]
        leave = sql.leave
        monkeypatch.setattr(sql, "leave", lambda *args: leave(*args).replace("KILL QUERY", "DO"))
        await lease.release()
        await (await waiting.result()).release()

    run(flavor, scenario)


def test_a_waiter_that_asks_again_through_another_client_keeps_its_place(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_sql, "CLAIM_US", 60_000_000)  # a stall would pass it over

    async def scenario(lab: Lab) -> None:
        client, other, third = [await lab.connect(server.url(), table=table) for _ in range(3)]
        for one in (other, third):  # both know of the queue
            lease = await client.lock("seat").acquire()
            waiter = lab.start(one.lock("seat", timeout=30).acquire())
            await lab.until_queued(client, "seat", 1)
            await lease.release()
            await (await waiter.result()).release()
        lease = await client.lock("seat").acquire()
        first, second = [Request("seat", letter * 32, 60.0, queue=True) for letter in "xy"]
        engine = other._core.engine
        for request in (first, second):
            await engine.watch(request, other._core.world.signal())
            await engine.acquire(request)
        signal = third._core.world.signal()
        await third._core.engine.watch(first, signal)
        answer = await third._core.engine.acquire(first)
        assert isinstance(answer, Busy)
        assert answer.position == 0
        await engine.unwatch(first)
        await lease.release()
        await lab.until(signal.is_set, "the client that asked last is called")
        grant = await third._core.engine.acquire(first)
        assert isinstance(grant, Grant)
        await third._core.engine.release(grant)
        await engine.withdraw(second)

    run(flavor, scenario)
