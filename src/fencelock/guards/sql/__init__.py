"""Guards for data in SQL databases: PostgreSQL, MySQL and MariaDB, SQLite.

    guard = SqlGuard()
    with client.lock("stock:42") as lease, connection.transaction():
        guard.enter(connection, lease)
        connection.execute("UPDATE stock SET ...")

``SqlGuard`` keeps the marks in a table of its own, one row for each name, so it can protect
anything in the database. ``RowGuard`` keeps the mark in the row that it protects. Both take the
caller's connection, of a driver or of SQLAlchemy or Django, and are awaited if that is asyncio's.

A lock that is kept in the same database as the data needs neither: ``fencelock.sql.verify`` checks
the lock itself in the transaction.
"""

from .guard import SqlGuard
from .rows import MissingRow, RowGuard

__all__ = ["MissingRow", "RowGuard", "SqlGuard"]
