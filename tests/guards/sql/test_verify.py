"""``fencelock.sql.verify`` over every way to work with a database that can keep locks."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import fencelock
import fencelock.sql
from fencelock import (
    AcquireTimeout,
    LeaseLost,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from tests.guards.sql import django_site
from tests.guards.sql.conftest import Place
from tests.guards.sql.hands import KINDS, SERVERS, Hand, django_database, url_of
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared

BUSY = (AcquireTimeout, Unavailable, OutcomeUnknown)  # a locked row may be no answer in time


def address(kind: str) -> str:
    """Where the locks are, beside the data."""
    if KINDS[kind][0] == "postgresql":
        return shared(Postgresql).url()
    return shared(SERVERS["mariadb" if "mariadb" in kind else "mysql"]).url()


@pytest.fixture(params=sorted(kind for kind, (store, _) in KINDS.items() if store != "sqlite"))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table() -> str:
    return f"locks_{uuid4().hex[:12]}"


@pytest.fixture
def client(kind: str, table: str) -> Iterator[fencelock.Client]:
    with fencelock.connect(address(kind), table=table, request_timeout=3) as client:
        yield client


@pytest.fixture
def hand(kind: str, tmp_path: Path) -> Iterator[Hand]:
    place = Place(kind, tmp_path)
    yield place.hand()
    place.close()


def test_nobody_gets_the_lock_before_the_transaction_ends(
    kind: str, table: str, client: fencelock.Client, hand: Hand
) -> None:
    lease = client.lock("seat", ttl=2, renew=False).acquire()
    hand.begin()
    hand.do(fencelock.sql.verify(hand.connection, lease))
    assert lease.lost.wait(20)
    with fencelock.connect(address(kind), table=table) as hasty:
        with pytest.raises(BUSY):
            hasty.lock("seat", ttl=2).acquire(timeout=0.3)
        hand.commit()
    with fencelock.connect(address(kind), table=table) as other:
        with other.lock("seat", timeout=20) as rival:
            assert rival.fence > lease.fence


def test_verify_outside_of_a_transaction_is_refused(client: fencelock.Client, hand: Hand) -> None:
    hand.alone()
    with client.lock("seat") as lease:
        with pytest.raises(UsageError, match="outside of a transaction"):
            hand.do(fencelock.sql.verify(hand.connection, lease))


def test_a_release_before_the_commit_is_warned_about_on_the_callers_line(
    kind: str, client: fencelock.Client, hand: Hand
) -> None:
    lease = client.lock("seat").acquire()
    if KINDS[kind][0] == "mysql":
        hand.execute("START TRANSACTION")  # PyMySQL does not hear of one that a question begins
    hand.do(fencelock.sql.verify(hand.connection, lease))
    with pytest.warns(RuntimeWarning, match="released before the transaction") as caught:
        release(lease)
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, RELEASE_LINE)]
    hand.commit()
    release(lease)
    with warnings.catch_warnings(), client.lock("seat", timeout=5) as again:
        warnings.simplefilter("error")
        hand.begin()
        hand.do(fencelock.sql.verify(hand.connection, again))
        hand.commit()


def release(lease: fencelock.Lease) -> None:
    """Release, whether the row can be had or not."""
    try:
        lease.release()
    except (Unavailable, OutcomeUnknown):
        pass


RELEASE_LINE = release.__code__.co_firstlineno + 3


def test_a_lease_that_is_over_is_refused(client: fencelock.Client, hand: Hand) -> None:
    lease = client.lock("seat").acquire()
    client.revoke("seat", "maintenance")
    hand.begin()
    with pytest.raises(LeaseLost):
        hand.do(fencelock.sql.verify(hand.connection, lease))
    hand.rollback()
    lease.release()


# SQLAlchemy's sessions


@pytest.fixture
def locks(table: str) -> Iterator[fencelock.Client]:
    with fencelock.connect(shared(Postgresql).url(), table=table) as client:
        yield client


@pytest.mark.parametrize("scoped", [False, True])
def test_a_session_of_an_orm_is_taken(
    locks: fencelock.Client, scoped: bool, tmp_path: Path
) -> None:
    engine = create_engine(url_of("postgresql", tmp_path, "psycopg"))
    session: Any = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    lease = locks.lock("seat", ttl=2, renew=False).acquire()
    fencelock.sql.verify(session, lease)
    assert lease.lost.wait(20)
    with pytest.raises(AcquireTimeout):
        locks.lock("seat").acquire(timeout=0.3)
    session.commit()
    with locks.lock("seat", timeout=20) as again:
        fencelock.sql.verify(session, again)
        session.commit()
    for lease in [locks.lock("seat").acquire()]:
        fencelock.sql.verify(session, lease)
        with pytest.warns(RuntimeWarning, match="released before the transaction"):
            lease.release()
    session.close()
    engine.dispose()


def test_a_session_of_asyncio_is_awaited(table: str, tmp_path: Path) -> None:
    async def work() -> None:
        engine = create_async_engine(url_of("postgresql", tmp_path, "psycopg"))
        address = shared(Postgresql).url()
        async with (
            fencelock.aio.connect(address, table=table) as client,
            AsyncSession(engine) as session,
        ):
            async with client.lock("seat") as lease:
                await fencelock.sql.verify(session, lease)
                await session.commit()
            lease = await client.lock("seat").acquire()
            await fencelock.sql.verify(session, lease)
            with pytest.warns(RuntimeWarning, match="released before") as caught:
                await lease.release()
            assert [warning.filename for warning in caught] == [__file__]
            await session.rollback()
        await engine.dispose()

    asyncio.run(work())


def test_an_engine_is_no_connection(locks: fencelock.Client, tmp_path: Path) -> None:
    engine = create_engine(url_of("postgresql", tmp_path, "psycopg"))
    with locks.lock("seat") as lease:
        with pytest.raises(UsageError, match="pass a Connection or a Session"):
            fencelock.sql.verify(engine, lease)
        with engine.connect() as connection:
            fencelock.sql.verify(connection.connection, lease)  # of its pool
            connection.connection.rollback()
    engine.dispose()


# Django


def test_django_is_verified_inside_of_atomic_only(locks: fencelock.Client, tmp_path: Path) -> None:
    alias = f"db{uuid4().hex[:12]}"
    django_site.ready(**{alias: django_database("postgresql", tmp_path)})
    from django.db import connections, transaction

    connection = connections[alias]
    atomic: Any = partial(transaction.atomic, using=alias)
    with locks.lock("seat") as lease:
        with pytest.raises(UsageError, match="outside of a transaction"):
            fencelock.sql.verify(connection, lease)
        with atomic():
            fencelock.sql.verify(connection, lease)
    with atomic():
        lease = locks.lock("seat").acquire()
        fencelock.sql.verify(connection, lease)
        with pytest.warns(RuntimeWarning, match="released before the transaction"):
            lease.release()
    connection.close()
    del connections[alias]


# Another database than the locks'


def test_a_connection_to_another_database_is_a_clear_error(locks: fencelock.Client) -> None:
    name = f"other_{uuid4().hex[:12]}"
    server = shared(Postgresql)
    server.psql(f"CREATE DATABASE {name}")
    with (
        psycopg.connect(server.conninfo, dbname=name) as elsewhere,
        locks.lock("seat") as lease,
        pytest.raises(Misconfigured, match="without the table of the lock, which is kept at") as e,
    ):
        fencelock.sql.verify(elsewhere, lease)
    assert "\n" not in str(e.value)
    assert "schema()" not in str(e.value)  # that is a guard's


def test_another_schema_of_locks_is_not_taken_for_a_loss_in_silence(
    locks: fencelock.Client, table: str
) -> None:
    """Locks of the same names may lie in two databases: the message says so."""
    name = f"other_{uuid4().hex[:12]}"
    server = shared(Postgresql)
    server.psql(f"CREATE DATABASE {name}")
    with (
        fencelock.connect(server.url().rpartition("/")[0] + f"/{name}", table=table) as twin,
        psycopg.connect(server.conninfo, dbname=name) as elsewhere,
        locks.lock("seat") as lease,
        twin.lock("seat"),
    ):
        with pytest.raises(LeaseLost, match="the database of this connection knows no such lease"):
            fencelock.sql.verify(elsewhere, lease)
        lease.check()  # the lock itself is not lost


def test_another_kind_of_database_is_a_clear_error(locks: fencelock.Client, tmp_path: Path) -> None:
    place = Place("sqlite3", tmp_path)
    with locks.lock("seat") as lease:
        with pytest.raises(UsageError, match=r"kept at postgresql://.* a connection to sqlite"):
            fencelock.sql.verify(place.hand().connection, lease)
    place.close()
