"""Where the guard stands in a transaction: it begins with it, or is joined while it is open."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fencelock import StaleFence, UsageError
from fencelock.guards.sql import SqlGuard
from tests.guards.sql.psycopg.entering import (
    ASCII,
    NAME,
    check,
    enter_in_block,
    prepare,
    requests,
)
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared


def test_the_guard_takes_one_round_trip(url: str, guard: SqlGuard) -> None:
    def bare(db: Any) -> None:
        db.execute("SELECT 1")
        db.commit()

    def guarded(db: Any) -> None:
        guard.enter(db, 7, NAME)
        bare(db)

    def guarded_block(db: Any) -> None:
        with db.transaction():
            guard.enter(db, 7, NAME)
            db.execute("SELECT 1")

    assert requests(url, guard, bare) == 3
    assert requests(url, guard, guarded) == requests(url, guard, guarded_block) == 4


@pytest.mark.parametrize("epoch", [0, 1023])
def test_in_a_block_every_fence_and_every_name_is_compared(
    db: psycopg.Connection[Any], guard: SqlGuard, epoch: int
) -> None:
    guard = SqlGuard(guard.table, epoch=epoch)
    prepare(guard, db, 7)
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


@pytest.mark.parametrize("prepared", [False, True])
def test_an_error_leaves_a_connection_that_can_go_on(
    db: psycopg.Connection[Any], guard: SqlGuard, prepared: bool
) -> None:
    if prepared:
        prepare(guard, db, 1)
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
