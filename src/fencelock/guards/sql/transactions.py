"""Tell whether a connection is in a transaction, from the driver's state, without a round trip.

A guard outside of a transaction protects nothing: the mark would be committed at once, and a newer
holder could come between it and the write. So this is checked before anything is sent.
"""

from __future__ import annotations

from typing import Any

from ...errors import UsageError

__all__ = ["demand", "is_open", "may_change"]

# Bits of the status flags in every reply of MySQL's protocol.
_IN_TRANSACTION, _AUTOCOMMIT = 1, 2


def may_change(connection: Any) -> bool | None:
    """Return whether the next change is in a transaction, or begins one; None if unknown."""
    if is_open(connection):
        return True
    flags = getattr(connection, "server_status", None)
    if isinstance(flags, int):
        return not flags & _AUTOCOMMIT
    alone = getattr(connection, "autocommit", None)
    if isinstance(alone, bool):
        return not alone
    if hasattr(connection, "isolation_level"):  # sqlite3 begins by itself
        return connection.isolation_level is not None
    autocommit = getattr(connection, "get_autocommit", None)
    return not autocommit() if callable(autocommit) else None


def is_open(connection: Any) -> bool | None:
    """Return whether a transaction is open, or None if unknown."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if status is not None:
        return int(status) != 0
    flags = getattr(connection, "server_status", None)
    if isinstance(flags, int):
        return bool(flags & _IN_TRANSACTION)
    begun = getattr(connection, "in_transaction", None)
    return begun if isinstance(begun, bool) else None


def demand(belongs: bool | None) -> None:
    """Raise UsageError if the next change is in no transaction."""
    if belongs is False:
        raise UsageError(
            "this was called outside of a transaction, where it protects nothing: begin one first, "
            "and turn autocommit off"
        )
