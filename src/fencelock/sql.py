"""A lease and a transaction of the caller's own, in the database that keeps the locks.

    with client.lock("stock:42") as lease, connection.transaction():
        fencelock.sql.verify(connection, lease)
        connection.execute("UPDATE stock SET ...")

``verify`` makes sure of the lease inside the transaction. If it still holds, nobody can be granted
the lock before the transaction has ended, however late that is: a commit after the loss of the
lease is impossible. Any connection of Python's DB API to the same database will do (psycopg,
PyMySQL, mysqlclient, and SQLAlchemy's or Django's around them); with an asyncio driver, await it.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Awaitable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from .engine import Verification
    from .face import LeaseFace

__all__ = ["verify"]

_IN_TRANSACTION = 1  # a bit of what MySQL's protocol says with every answer


def verify(connection: Any, lease: LeaseFace) -> Any:
    """Make sure of a lease inside an open transaction, or raise LeaseLost.

    It returns None, or something to await when the connection is one of asyncio. Commit before the
    lock is released: a lock that is released first protects nothing, and a RuntimeWarning says so.
    """
    lease.check()
    driver = _driver(connection)
    question = lease._core.engine.verification(lease._tenure.grant)  # pyright: ignore[reportPrivateUsage]
    cursor: Any = driver.cursor()
    waits: bool = isawaitable(cursor)
    asked: Any = cursor if waits else cursor.execute(question.sql, question.parameters)
    if isawaitable(asked):
        return _verify_later(driver, lease, question, cursor, asked)
    row = cursor.fetchone()
    cursor.close()
    _judge(driver, lease, row)
    return None


async def _verify_later(
    driver: Any, lease: LeaseFace, question: Verification, cursor: Any, asked: Awaitable[Any]
) -> None:
    first = await asked
    if asked is cursor:  # a driver whose cursors are awaited, too
        cursor = first
        await cursor.execute(question.sql, question.parameters)
    row = await cursor.fetchone()
    await cursor.close()
    _judge(driver, lease, row)


def _driver(connection: Any) -> Any:
    """The driver's own connection, out of what a toolkit has wrapped it in."""
    for _ in range(3):
        inner = getattr(connection, "driver_connection", None)  # SQLAlchemy's, of a pool
        if inner is None and not hasattr(connection, "cursor"):
            inner = getattr(connection, "connection", None)
        if inner is None:
            return connection
        connection = inner
    return connection


def _judge(driver: Any, lease: LeaseFace, row: object) -> None:
    tenure = lease._tenure  # pyright: ignore[reportPrivateUsage]
    if row is None:
        raise tenure.lost_error("expired", "the database knows no such lease any more")
    if _in_transaction(driver) is False:
        raise UsageError(
            "verify() was called outside of a transaction, where it protects nothing: begin one "
            "first, and turn autocommit off"
        )
    tenure.before_release = _reminder(lease.name, driver)


def _in_transaction(driver: Any) -> bool | None:
    """Whether a transaction is open, where the driver tells without asking the server."""
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    if status is not None:
        return int(status) != 0
    flags = getattr(driver, "server_status", None)
    return bool(flags & _IN_TRANSACTION) if isinstance(flags, int) else None


def _reminder(name: str, driver: Any) -> Any:
    try:
        reference = weakref.ref(driver)
    except TypeError:
        return None

    def remind() -> None:
        connection = reference()
        if connection is not None and _in_transaction(connection):
            warnings.warn(
                f"the lock {name!r} is released before the transaction that it protects has ended: "
                "commit first, inside the lock's block",
                RuntimeWarning,
                stacklevel=4,
            )

    return remind
