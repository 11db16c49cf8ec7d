"""The ways to enter a guard through psycopg, and what each of them is known by."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fencelock import StaleFence
from fencelock.guards.sql import SqlGuard
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy
from tests.servers.shared import shared

NAME = "stöck:42'; DROP TABLE x; --"
ASCII = "stock:42'; DROP TABLE x; --"  # it reads the same in every encoding of a connection


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
