"""SQLAlchemy: sessions that refuse to flush with a stale fence."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, delete, insert, select, update
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import (
    Session,
    scoped_session,
    sessionmaker,
)

import fencelock
from fencelock import LeaseLost, Misconfigured, StaleFence, UsageError
from fencelock.guards.sql import SqlGuard
from fencelock.guards.sqlalchemy import guard_session
from tests.guards.sql.sqlalchemy.stock import Base, Kind, Stock, row


def test_a_change_carries_the_fence_and_an_older_one_is_refused(
    engine: Engine, session: Session
) -> None:
    for fence, value in ((5, 2), (5, 3), (7, 4)):
        with guard_session(session, fence, "stock:42") as guarded:
            stock = guarded.get(Stock, 42)
            stock.n = value
            session.commit()
        assert row(engine) == (value, fence)
    with guard_session(session, 6, "stock:42"):
        session.get_one(Stock, 42).n = 9
        with pytest.raises(StaleFence) as caught:
            session.flush()
    session.rollback()
    assert (caught.value.name, caught.value.offered, caught.value.highest) == ("stock:42", 6, 7)
    assert row(engine) == (4, 7)
    assert session.get_one(Stock, 42).n == 4


def test_what_is_read_through_the_guard_shuts_the_older_out(
    engine: Engine, session: Session
) -> None:
    with guard_session(session, 7, "stock:42") as guarded:
        assert guarded.get(Stock, 42).fence == 7
        assert guarded.get(Stock, 99) is None
        session.commit()
    assert row(engine) == (1, 7)
    with Session(engine) as late, guard_session(late, 6, "stock:42") as guarded:
        with pytest.raises(StaleFence):
            guarded.get(Stock, 42)


def test_the_newest_is_read_and_not_what_the_session_remembers(
    engine: Engine, session: Session
) -> None:
    old = session.get_one(Stock, 42)
    session.commit()
    with Session(engine) as other:
        other.get_one(Stock, 42).n = 8
        other.commit()
    assert old.n == 8
    with Session(engine, expire_on_commit=False) as keeper:
        kept = keeper.get_one(Stock, 42)
        keeper.commit()
        with Session(engine) as other:
            other.get_one(Stock, 42).n = 9
            other.commit()
        assert kept.n == 8
        with guard_session(keeper, 5, "stock:42") as guarded:
            assert guarded.get(Stock, 42).n == 9
            keeper.commit()


def test_one_stale_row_refuses_the_whole_flush(engine: Engine, session: Session) -> None:
    with guard_session(session, 9, "a") as guarded:
        guarded.get(Stock, 43)
        session.commit()
    with guard_session(session, 8, "a"):
        for stock in session.scalars(select(Stock).order_by(Stock.id)):
            stock.n = 5
        with pytest.raises(StaleFence):
            session.commit()
    session.rollback()
    assert [row(engine, key) for key in (41, 42, 43)] == [(1, 0), (1, 0), (1, 9)]


def test_new_and_deleted_rows_are_guarded(engine: Engine, session: Session) -> None:
    with guard_session(session, 7, "a"):
        session.add(Stock(id=50, n=1))
        session.commit()
        assert row(engine, 50) == (1, 7)
    with guard_session(session, 6, "a"):
        session.delete(session.get_one(Stock, 50))
        with pytest.raises(StaleFence):
            session.commit()
        session.rollback()
    assert row(engine, 50) == (1, 7)
    with guard_session(session, 7, "a"):
        session.delete(session.get_one(Stock, 50))
        session.commit()
    assert row(engine, 50) is None


def test_a_row_that_a_relationship_changes_is_guarded(engine: Engine, session: Session) -> None:
    with guard_session(session, 7, "a") as guarded:
        guarded.get(Stock, 42)
        session.commit()
    with guard_session(session, 6, "a", unfenced=[Kind]):
        session.delete(session.get_one(Kind, "pen"))  # which empties the column of its stocks
        with pytest.raises(StaleFence):
            session.commit()
        session.rollback()
    assert row(engine) == (1, 7)


def test_what_changes_nothing_is_refused_all_the_same(engine: Engine, session: Session) -> None:
    with guard_session(session, 7, "a") as guarded:
        guarded.get(Stock, 42)
        session.commit()
    with guard_session(session, 6, "a"):
        session.get_one(Stock, 42).n = 1  # which it is
        with pytest.raises(StaleFence):
            session.commit()
        session.rollback()


def test_many_rows_at_once_are_all_changed_or_none(engine: Engine, session: Session) -> None:
    with guard_session(session, 7, "a") as guarded:
        guarded.get(Stock, 42)
        session.commit()
        session.execute(update(Stock).where(Stock.id > 41).values(n=Stock.n + 1))
        session.commit()
    assert [row(engine, key) for key in (41, 42, 43)] == [(1, 0), (2, 7), (2, 7)]
    with guard_session(session, 6, "a"):
        for statement in (update(Stock).values(n=9), delete(Stock).where(Stock.n > 0)):
            with pytest.raises(StaleFence):
                session.execute(statement)
            session.rollback()
        with pytest.raises(UsageError, match="list"):
            session.execute(update(Stock), [{"id": 41, "n": 3}])
        session.rollback()
        session.execute(delete(Stock).where(Stock.id == 41))
        session.commit()
    assert [row(engine, key) for key in (41, 42, 43)] == [None, (2, 7), (2, 7)]


def test_an_unguarded_session_works_and_never_lowers_a_mark(
    engine: Engine, session: Session
) -> None:
    with Session(engine) as other, guard_session(other, 7, "a") as guarded:
        before = session.get_one(Stock, 42)
        before_fence = before.fence
        session.rollback()
        guarded.get(Stock, 42)
        other.commit()
    stock = session.get_one(Stock, 42)
    stock.n = 3
    session.commit()
    assert before_fence == 0
    assert row(engine) == (3, 7)


def test_guarding_ends_with_the_block(engine: Engine, session: Session) -> None:
    with guard_session(session, 5, "a"):
        with pytest.raises(UsageError, match="already"), guard_session(session, 6, "a"):
            pass
    session.get_one(Stock, 42).n = 2
    session.commit()
    assert row(engine) == (2, 0)
    with guard_session(session, 5, "a"):
        session.get_one(Stock, 42).n = 3
        session.commit()
    assert row(engine) == (3, 5)


def test_an_epoch_counts(engine: Engine, session: Session) -> None:
    with guard_session(session, 1000, "a") as guarded:
        guarded.get(Stock, 42)
        session.commit()
    with guard_session(session, 1, "a", epoch=1) as guarded:
        guarded.get(Stock, 42)
        session.commit()
    with guard_session(session, 2000, "a") as guarded, pytest.raises(StaleFence, match="epoch 1"):
        guarded.get(Stock, 42)


def test_a_class_without_a_fence_is_told(session: Session) -> None:
    with guard_session(session, 5, "a") as guarded, pytest.raises(UsageError, match="FencedMixin"):
        guarded.get(Kind, "pen")
    with pytest.raises(UsageError):
        guard_session(session, 5)


def test_a_table_without_the_column_is_misconfigured(engine: Engine, session: Session) -> None:
    Base.metadata.drop_all(engine)
    with guard_session(session, 5, "a") as guarded, pytest.raises(Misconfigured):
        guarded.get(Stock, 42)
    session.rollback()


def test_a_session_can_enter_a_table_of_marks(engine: Engine, session: Session) -> None:
    guard = SqlGuard(f"marks_{uuid4().hex[:12]}")
    guard.create(session)
    session.commit()
    guard.enter(session, 5, "a")
    session.get_one(Stock, 42).n = 2
    session.commit()
    with pytest.raises(StaleFence):
        guard.enter(session, 4, "a")
    session.rollback()
    registry = scoped_session(sessionmaker(engine))
    assert guard.mark(registry, "a") == 5
    registry.remove()
    session.execute(insert(Kind).values(name="ink"))
    session.rollback()


def test_a_busy_row_is_passed_on_as_sqlalchemy_has_it(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'db'}?timeout=0")
    guard = SqlGuard()
    with Session(engine) as first, Session(engine) as second:
        guard.create(first)
        first.commit()
        guard.enter(first, 5, "a")
        with pytest.raises(OperationalError, match="locked"):
            guard.enter(second, 6, "a")
    engine.dispose()


# Classes without a fence


def test_a_change_of_a_class_without_a_fence_is_refused_by_name(session: Session) -> None:
    """Nothing would notice that the lease is stale."""
    words = r"Kind has no fence.* nothing was written.*unfenced=\[Kind\]"
    with guard_session(session, 7, "a"):
        session.add(Kind(name="ink"))
        with pytest.raises(UsageError, match=words):
            session.commit()
        session.rollback()
        session.delete(session.get_one(Kind, "pen"))
        with pytest.raises(UsageError, match=words):
            session.flush()
        session.rollback()
        session.get_one(Kind, "pen").name = "ink"
        with pytest.raises(UsageError, match=words):
            session.flush()
        session.rollback()
        for statement in (insert(Kind), update(Kind), delete(Kind)):
            with pytest.raises(UsageError, match=words):
                session.execute(statement, {"name": "ink"} if statement.is_insert else None)
            session.rollback()
        assert session.get_one(Kind, "pen").stocks  # reading is free
        session.commit()


def test_a_class_without_a_fence_that_was_named_is_let_through(session: Session) -> None:
    with guard_session(session, 7, "a", unfenced=[Kind]):
        session.add(Kind(name="ink"))
        session.get_one(Stock, 42).n = 5
        session.commit()
        session.execute(delete(Kind).where(Kind.name == "ink"))
        session.commit()


def test_an_insert_of_many_fenced_rows_is_let_through(session: Session) -> None:
    with guard_session(session, 7, "a"):
        session.execute(insert(Stock), [{"id": 60, "n": 1}, {"id": 61, "n": 1}])
        session.commit()
        session.execute(delete(Stock).where(Stock.id >= 60))
        session.commit()


def test_a_lease_that_ends_within_the_block_refuses_the_flush(
    engine: Engine, session: Session
) -> None:
    with fencelock.connect("memory://alchemy") as client:
        lease = client.lock("stock:42").acquire()
        with guard_session(session, lease) as guarded:
            stock = guarded.get(Stock, 42)
            session.commit()
            before = row(engine)
            lease.release()
            stock.n = 99
            with pytest.raises(LeaseLost):
                session.commit()
            session.rollback()
        with pytest.raises(LeaseLost):
            guard_session(session, lease)
    assert row(engine) == before


def test_a_reader_is_told_that_a_mapped_row_keeps_one_mark(session: Session) -> None:
    with fencelock.connect("memory://") as client, client.rwlock("stock:42").read() as lease:
        with pytest.raises(UsageError, match="admits writers only"):
            guard_session(session, lease)
