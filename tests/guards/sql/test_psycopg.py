"""psycopg 3: the transaction that begins with the guard, and all connections that are special."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from fencelock import EngineError, StaleFence, UsageError
from fencelock.guards.sql import SqlGuard, prepared
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy
from tests.servers.server import until
from tests.servers.shared import shared

NAME = "stöck:42'; DROP TABLE x; --"


@pytest.fixture
def url() -> str:
    return shared(Postgresql).url()


@pytest.fixture
def db(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url) as connection:
        yield connection


@pytest.fixture
def guard(db: psycopg.Connection[Any]) -> SqlGuard:
    guard = SqlGuard(f"marks_{uuid4().hex[:12]}")
    guard.create(db)
    db.commit()
    return guard


def check(guard: SqlGuard, db: Any, first: int) -> None:
    """It takes part in the transaction of this connection, and is refused when it should be."""
    guard.enter(db, first, NAME)
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    db.rollback()
    assert guard.mark(db, NAME) < first
    db.rollback()
    guard.enter(db, first, NAME)
    db.commit()
    with pytest.raises(StaleFence) as caught:
        guard.enter(db, first - 1, NAME)
    assert caught.value.highest == first
    db.rollback()


def requests(url: str, guard: SqlGuard, work: Any) -> int:
    """How many round trips it takes."""
    with Proxy(shared(Postgresql).port) as proxy:
        through = url.replace(str(shared(Postgresql).port), str(proxy.port))
        with psycopg.connect(through) as db:
            for _ in range(6):  # whatever is prepared is prepared by then
                guard.enter(db, 7, NAME)
                db.commit()
                enter_in_block(guard, db, 7)
            before = proxy.requests
            work(db)
            return proxy.requests - before


def test_the_guard_takes_no_round_trip_more_than_the_transaction_itself(
    url: str, guard: SqlGuard
) -> None:
    def guarded(db: Any) -> None:
        guard.enter(db, 7, NAME)
        db.execute("SELECT 1")
        db.commit()

    def bare(db: Any) -> None:
        db.execute("SELECT 1")
        db.commit()

    assert requests(url, guard, guarded) == requests(url, guard, bare) == 3


ASCII = "stock:42'; DROP TABLE x; --"  # it reads the same in every encoding of a connection


def enter_in_block(guard: SqlGuard, db: Any, fence: int) -> bool:
    """Enter in a transaction that is open; whether that took no savepoint."""
    with db.transaction():
        guard.enter(db, fence, ASCII)
        own = f"xmin::text::bigint = mod(txid_current(), 4294967296) FROM {guard.table}"
        row = db.execute(f"SELECT {own} WHERE name = %s", (ASCII,)).fetchone()
        assert row is not None
        return bool(row[0])


def rely(guard: SqlGuard, db: Any, fence: int) -> None:
    """Enter until the statement is prepared by psycopg, and no savepoint is needed any more."""
    entered = [enter_in_block(guard, db, fence) for _ in range(4)]
    assert entered == [False, True, True, True]


def test_in_a_block_it_takes_one_round_trip_and_no_savepoint(
    url: str, db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    def guarded(db: Any) -> None:
        with db.transaction():
            guard.enter(db, 7, ASCII)
            db.execute("SELECT 1")

    def bare(db: Any) -> None:
        with db.transaction():
            db.execute("SELECT 1")

    rely(guard, db, 7)
    assert requests(url, guard, guarded) == requests(url, guard, bare) + 1 == 4


@pytest.mark.parametrize("epoch", [0, 1023])
def test_in_a_block_every_fence_and_every_name_is_compared(
    db: psycopg.Connection[Any], guard: SqlGuard, epoch: int
) -> None:
    guard = SqlGuard(guard.table, epoch=epoch)
    rely(guard, db, 7)
    for fence in (2**15, 2**31, 2**53 - 1):
        with db.transaction():
            guard.enter(db, fence, ASCII)
            guard.enter(db, fence, NAME)
        with pytest.raises(StaleFence) as caught, db.transaction():
            guard.enter(db, fence - 1, ASCII)
        assert caught.value.highest == fence
        with db.transaction():
            with pytest.raises(StaleFence):
                guard.enter(db, fence - 1, NAME)
            guard.enter(db, fence, NAME)  # a refusal is no error of the transaction
        enter_in_block(guard, db, fence)


def test_what_psycopg_throws_away_is_not_relied_on(db: Any, guard: SqlGuard) -> None:
    """It does so itself after a rollback, and when it sees that statements are dropped."""
    rely(guard, db, 7)
    drops: list[tuple[str, bool]] = [("ROLLBACK", False)]
    drops += [("DISCARD ALL", True), ("DEALLOCATE ALL", False), ("deallocate all;", True)]
    for _ in range(3):
        for sql, alone in drops:
            db.autocommit = alone
            db.execute(sql)
            db.rollback()
            db.autocommit = False
            for _ in range(3):
                enter_in_block(guard, db, 7)


def test_a_statement_that_vanishes_unseen_fails_once_and_nothing_happens(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    rely(guard, db, 7)
    with pytest.raises(EngineError, match="nothing happened"), db.transaction():
        db.pgconn.exec_(b"DEALLOCATE ALL")
        guard.enter(db, 8, ASCII)
    assert guard.mark(db, ASCII) == 7
    db.rollback()
    assert [enter_in_block(guard, db, 8) for _ in range(3)] == [False, False, False]


def test_a_statement_that_vanishes_unseen_before_a_transaction_is_not_missed(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    rely(guard, db, 7)
    db.pgconn.exec_(b"DEALLOCATE ALL")
    check(guard, db, 8)
    check(guard, db, 10)


def test_a_psycopg_that_keeps_its_statements_elsewhere_gets_a_savepoint(
    db: psycopg.Connection[Any], guard: SqlGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_names", lambda _: None)
    assert [enter_in_block(guard, db, fence) for fence in (7, 8, 9)] == [False, False, False]


def test_in_a_block_behind_a_pooler_no_statement_is_relied_on(guard: SqlGuard) -> None:
    with ExitStack() as stack:
        url = shared(Pgbouncer).url()
        clients = [stack.enter_context(psycopg.connect(url)) for _ in range(3)]
        guard.create(clients[0])
        clients[0].commit()
        for fence in range(1, 5):
            for client in clients:
                assert not enter_in_block(guard, client, fence)
        with pytest.raises(StaleFence), clients[0].transaction():
            guard.enter(clients[0], 3, ASCII)


def test_an_open_transaction_is_joined(db: psycopg.Connection[Any], guard: SqlGuard) -> None:
    for fence in (2, 4):
        with db.transaction():
            guard.enter(db, fence, NAME)
            with pytest.raises(StaleFence):
                guard.enter(db, fence - 1, NAME)
        with pytest.raises(StaleFence), db.transaction():
            guard.enter(db, fence - 1, NAME)
        assert guard.mark(db, NAME) == fence
        db.rollback()


def test_statements_that_vanish_are_prepared_again(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    for first in (10, 20, 30):
        check(guard, db, first)
        db.rollback()
        db.autocommit = True
        db.execute("DISCARD ALL" if first < 20 else "DEALLOCATE ALL")
        db.autocommit = False
    check(guard, db, 40)


def test_statements_that_vanish_in_an_open_transaction_cost_nothing_of_it(
    db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    """What the caller did before the guard is still there, and the transaction goes on."""
    db.execute("CREATE TEMPORARY TABLE work (n integer)")
    guard.enter(db, 10, NAME)
    db.commit()
    for fence in (11, 12, 13):
        with db.transaction():
            db.execute("INSERT INTO work VALUES (%s)", (fence,))
            db.execute("DEALLOCATE ALL")
            guard.enter(db, fence, NAME)
            guard.enter(db, fence, NAME)
            with pytest.raises(StaleFence):
                guard.enter(db, fence - 1, NAME)
        assert guard.mark(db, NAME) == fence
    assert db.execute("SELECT n FROM work ORDER BY n").fetchall() == [(11,), (12,), (13,)]


def test_a_statement_that_is_there_already_does_no_harm(
    url: str, db: psycopg.Connection[Any], guard: SqlGuard
) -> None:
    check(guard, db, 10)
    prepared._memories.clear()
    check(guard, db, 20)
    check(guard, db, 30)


@pytest.mark.parametrize("relied", [False, True])
def test_an_error_leaves_a_connection_that_can_go_on(
    db: psycopg.Connection[Any], guard: SqlGuard, relied: bool
) -> None:
    if relied:
        rely(guard, db, 1)
    with psycopg.connect(shared(Postgresql).url()) as other:
        guard.enter(other, 5, NAME)
        db.execute("SET lock_timeout = '50ms'")
        db.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            guard.enter(db, 6, NAME)
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        db.rollback()
    check(guard, db, 10)


@pytest.mark.parametrize(
    "special",
    [
        {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE},
        {"read_only": False},
        {"deferrable": True},
        {"prepare_threshold": None},
        {"prepare_threshold": 0},
    ],
)
def test_what_the_caller_has_set_is_kept(
    db: psycopg.Connection[Any], guard: SqlGuard, special: dict[str, Any]
) -> None:
    for name, value in special.items():
        setattr(db, name, value)
    check(guard, db, 10)
    guard.enter(db, 11, NAME)
    row = db.execute("SELECT current_setting('transaction_isolation')").fetchone()
    assert row == ("serializable" if "isolation_level" in special else "read committed",)
    left = db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert left == (0,) or special.get("prepare_threshold", 5) is not None
    db.rollback()


def test_in_a_pipeline_it_refuses_to_guess(db: psycopg.Connection[Any], guard: SqlGuard) -> None:
    with db.pipeline(), pytest.raises(UsageError, match="pipeline"):
        guard.enter(db, 5, NAME)
    guard.enter(db, 5, NAME)
    with db.pipeline():
        db.execute("SELECT 1")
    db.commit()
    assert guard.mark(db, NAME) == 5


def test_autocommit_is_refused_and_a_transaction_in_it_is_not(url: str, guard: SqlGuard) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        with pytest.raises(UsageError, match="outside of a transaction"):
            guard.enter(db, 5, NAME)
        with db.transaction():
            guard.enter(db, 5, NAME)
        assert guard.mark(db, NAME) == 5


def test_a_pool_of_connections_between_does_no_harm(guard: SqlGuard) -> None:
    """PgBouncer gives each transaction another session, with other statements prepared."""
    with psycopg.connect(shared(Pgbouncer).url()) as maker:
        guard.create(maker)
    clients = [psycopg.connect(shared(Pgbouncer).url()) for _ in range(3)]
    fence = 0
    for _ in range(4):
        for client in clients:
            fence += 10
            check(guard, client, fence)
    for client in clients:
        client.close()


def test_asyncio_does_the_same(url: str, guard: SqlGuard) -> None:
    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(url) as db:
            for fence in (5, 6, 7):
                await guard.enter(db, fence, NAME)
                await db.commit()
                with pytest.raises(StaleFence):
                    await guard.enter(db, fence - 1, NAME)
                await db.rollback()
                await db.set_autocommit(True)
                await db.execute("DEALLOCATE ALL")
                await db.set_autocommit(False)
            for name in (ASCII, NAME):
                for fence in (7, 7, 7, 2**31, 2**31):
                    async with db.transaction():
                        await guard.enter(db, fence, name)
                with pytest.raises(StaleFence):
                    async with db.transaction():
                        await guard.enter(db, 8, name)
                await guard.reset(db, name, 7)
                await db.commit()
            async with db.transaction():
                await db.execute("DEALLOCATE ALL")
                await guard.enter(db, 8, NAME)
                await guard.enter(db, 9, NAME)
                with pytest.raises(StaleFence):
                    await guard.enter(db, 8, NAME)
            assert await guard.mark(db, NAME) == 9

    asyncio.run(play())


@pytest.mark.parametrize("before", [0, 3], ids=["new", "relied"])
def test_a_cancelled_enter_leaves_nothing_behind(url: str, guard: SqlGuard, before: int) -> None:
    async def play() -> None:
        async with (
            await psycopg.AsyncConnection.connect(url) as first,
            await psycopg.AsyncConnection.connect(url) as second,
        ):
            for _ in range(before):
                await guard.enter(second, 1, NAME)
                await second.commit()
            await guard.enter(first, 5, NAME)
            task = asyncio.ensure_future(guard.enter(second, 6, NAME))
            asks = psycopg.pq.TransactionStatus.ACTIVE
            await asyncio.to_thread(
                until, lambda: second.info.transaction_status == asks, "it to ask"
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await second.rollback()
            await first.commit()
            assert await guard.mark(second, NAME) == 5
            await second.rollback()
            await guard.enter(second, 6, NAME)  # it is a connection like any other
            await second.commit()
            assert await guard.mark(first, NAME) == 6

    asyncio.run(play())
