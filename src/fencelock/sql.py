"""Verify a lease inside the caller's own transaction, in the database that keeps the locks.

    with client.lock("stock:42") as lease, connection.transaction():
        fencelock.sql.verify(connection, lease)
        connection.execute("UPDATE stock SET ...")

``verify`` makes sure of the lease inside the transaction. If it still holds, nobody can be granted
the lock before the transaction has ended, however late that is: a commit after the loss of the
lease is impossible. Any connection of Python's DB API to the same database will do (psycopg,
PyMySQL, mysqlclient), SQLAlchemy's Connection or Session, and Django's connection; with one of
asyncio, await it.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from os.path import dirname
from typing import TYPE_CHECKING, Any

from .errors import EngineError, Misconfigured, UsageError
from .guards.sql import dialects, errors, transactions
from .guards.sql.adapters import Adapter, adapt
from .guards.sql.steps import Statement, Steps, Table

if TYPE_CHECKING:
    from ._client.facade import LeaseBase
    from .engine import Engine, Verification

__all__ = ["verify"]

_WHERE = Table("the table of the locks")
_PACKAGE = dirname(__file__)


def verify(connection: Any, lease: LeaseBase) -> Any:
    """Make sure of a lease inside an open transaction, or raise LeaseLost.

    It returns None, or something to await when the connection is one of asyncio. Commit before the
    lock is released: a lock that is released first protects nothing, and a RuntimeWarning says so.
    """
    lease.check()
    engine: Engine = lease._core.engine  # pyright: ignore[reportPrivateUsage]
    question = engine.verification(lease._hold.grant)  # pyright: ignore[reportPrivateUsage]
    connection = getattr(connection, "driver_connection", None) or connection  # SQLAlchemy's pool
    over = _adapt(connection, engine)
    try:
        asked = over.run(_steps(question), _WHERE, in_transaction=True)
    except EngineError as error:
        raise _explained(error, engine) from error
    if isawaitable(asked):
        return _verify_later(connection, lease, asked)
    _judge(connection, lease, asked)
    return None


async def _verify_later(connection: Any, lease: LeaseBase, asked: Awaitable[bool]) -> None:
    try:
        found = await asked
    except EngineError as error:
        raise _explained(error, lease._core.engine) from error  # pyright: ignore[reportPrivateUsage]
    _judge(connection, lease, found)


def _adapt(connection: Any, engine: Engine) -> Adapter:
    """Return the adapter of the connection, which must be to a database of the lock's kind."""
    dialect = dialects.find(engine.schemes[0])
    try:
        over = adapt(connection)
    except UsageError:
        over = adapt(connection, dialect.name)  # a driver whose name is not known
    if over.dialect is not dialect:
        raise UsageError(
            f"the lock is kept at {engine.address.public}, and this is a connection to "
            f"{over.dialect.name}: verify the lock in its own database, or use a guard"
        )
    return over


def _steps(question: Verification) -> Steps[bool]:
    """Query whether the row of the lease is there, with parameters named as guards name them."""
    parameters: list[str] = []
    values: dict[str, object] = {}
    for number, value in enumerate(question.parameters):
        binary = isinstance(value, bytes)  # which aiomysql cannot send
        parameters.append(f"UNHEX(:p{number})" if binary else f":p{number}")
        values[f"p{number}"] = value.hex() if isinstance(value, bytes) else value
    result = yield Statement(question.sql % tuple(parameters), values, fetch=True)
    return result.row is not None


def _explained(error: EngineError, engine: Engine) -> EngineError:
    """Explain a missing table: it is missing in the caller's database, not in the engine's."""
    if type(error) is not Misconfigured:
        return error
    return Misconfigured(
        f"this connection leads to a database without the table of the lock, which is kept at "
        f"{engine.address.public}; nothing happened. Verify the lock in its own database, with the "
        f"same search path, or use a guard ({errors.message_of(error.__cause__ or error)})"
    )


def _judge(connection: Any, lease: LeaseBase, found: bool) -> None:
    hold = lease._hold  # pyright: ignore[reportPrivateUsage]
    if not found:
        raise hold.lost_error(
            "expired",
            "the database of this connection knows no such lease (any more, if the lock is there)",
        )
    hold.before_release = _reminder(lease.name, connection)


def _reminder(name: str, connection: Any) -> Callable[[], None] | None:
    try:
        is_open = _watch(connection)
    except TypeError:
        return None  # a driver whose connections cannot be referred to weakly

    def remind() -> None:
        if is_open():
            warnings.warn(
                f"the lock {name!r} is released before the transaction that it protects has ended: "
                "commit first, inside the lock's block",
                RuntimeWarning,
                stacklevel=_callers_level(),
            )

    return remind


def _watch(connection: Any) -> Callable[[], bool | None]:
    """Return a function that tells whether the present transaction is still open, without keeping
    the transaction alive."""
    if hasattr(connection, "registry"):  # SQLAlchemy's scoped_session
        connection = connection.registry()
    for inner in ("sync_session", "sync_connection"):  # inside SQLAlchemy's asyncio objects
        connection = getattr(connection, inner, connection)
    if hasattr(connection, "get_transaction"):  # SQLAlchemy knows it, whoever has the connection
        transaction = weakref.ref(connection.get_transaction())
        return lambda: bool(getattr(transaction(), "is_active", False))
    if hasattr(connection, "in_atomic_block"):  # Django's, of this thread
        reference = weakref.ref(connection.ensure_connection.__self__)
        return lambda: _is_open_in_django(reference())
    reference = weakref.ref(connection)
    return lambda: transactions.is_open(reference())


def _is_open_in_django(connection: Any) -> bool | None:
    inner = getattr(connection, "connection", None)
    return getattr(connection, "in_atomic_block", False) or transactions.is_open(inner)


def _callers_level() -> int:
    """Return the ``stacklevel`` of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
