"""Tell whether a connection is in a transaction, as its driver knows it without a round trip.

A guard outside of a transaction protects nothing: the mark would be raised at once, and a newer
holder could come between it and the write. So this is looked at before anything is sent.
"""

from __future__ import annotations

from typing import Any

from ...errors import UsageError

__all__ = ["demand", "is_open", "may_change"]

# Bits of what MySQL's protocol says with every answer.
_IN_TRANSACTION, _AUTOCOMMIT = 1, 2


def may_change(connection: Any) -> bool | None:
    """Whether the next change belongs to a transaction, be it one that it begins itself."""
    if is_open(connection):
        return True
    flags = getattr(connection, "server_status", None)
    if isinstance(flags, int):
        return not flags & _AUTOCOMMIT
    alone = getattr(connection, "autocommit", None)
    if isinstance(alone, bool):
        return not alone
    if hasattr(connection, "isolation_level"):  # of sqlite3, which begins before a change
        return connection.isolation_level is not None
    autocommit = getattr(connection, "get_autocommit", None)
    return not autocommit() if callable(autocommit) else None


def is_open(connection: Any) -> bool | None:
    """Whether a transaction has begun."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if status is not None:
        return int(status) != 0
    flags = getattr(connection, "server_status", None)
    if isinstance(flags, int):
        return bool(flags & _IN_TRANSACTION)
    begun = getattr(connection, "in_transaction", None)
    return begun if isinstance(begun, bool) else None


def demand(belongs: bool | None) -> None:
    """Refuse to guard what belongs to no transaction."""
    if belongs is False:
        raise UsageError(
            "this was called outside of a transaction, where it protects nothing: begin one first, "
            "and turn autocommit off"
        )
