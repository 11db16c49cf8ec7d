"""Entering a guard through psycopg, in a transaction that it begins and in one that is open."""

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


def enter_in_block(guard: SqlGuard, db: Any, fence: int) -> None:
    """Enter in a transaction that is open."""
    with db.transaction():
        guard.enter(db, fence, ASCII)


def prepare(guard: SqlGuard, db: Any, fence: int) -> None:
    """Enter until psycopg has prepared the statement, as it does with whatever it sends often."""
    for _ in range(db.prepare_threshold + 2):
        enter_in_block(guard, db, fence)
    found = db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    db.commit()
    assert found != (0,)


def requests(url: str, guard: SqlGuard, work: Any) -> int:
    """How many round trips it takes."""
    with Proxy(shared(Postgresql).port) as proxy:
        through = url.replace(str(shared(Postgresql).port), str(proxy.port))
        with psycopg.connect(through) as db:
            for _ in range(8):  # whatever is prepared is prepared by then
                work(db)
            before = proxy.requests
            work(db)
            return proxy.requests - before
