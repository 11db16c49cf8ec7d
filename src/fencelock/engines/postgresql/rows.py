"""Decode the rows of our statements: from libpq's text to the types of the model."""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from ...model import Gone, Holding, Role, Waiting

Row: TypeAlias = tuple[bytes | None, ...]
Rows: TypeAlias = list[Row]


def holding(row: Row) -> Holding:
    """Return the holder that a row shows."""
    name, fence, ttl, age, remaining, meta, *share = row
    words = json.loads(string(meta))
    seen = Holding(
        string(name), integer(fence), number(ttl), max(0.0, number(age)), number(remaining), words
    )
    if not share:
        return seen
    slot, as_what, limit = share
    if as_what != b"semaphore":
        return seen._replace(role=role(as_what))
    return seen._replace(role="semaphore", slot=integer(slot), limit=integer(limit))


def waiting(row: Row) -> Waiting:
    """Return the waiter that a row shows."""
    age, meta, *share = row
    words = json.loads(string(meta))
    return Waiting(number(age), words, role(share[0]) if share else "lock")


def gone(reason: str | None) -> Gone:
    """Return why a hold has no record: it was revoked if there is a reason, else it expired."""
    if reason is not None:
        return Gone("revoked", reason)
    return Gone("expired", "its record is gone from the database")


def limit_of(rows: Rows) -> int | None:
    """Return a semaphore's limit: the last column of its holders and waiters, after their role."""
    return next((int(row[-1] or 0) for row in rows if row[-2] == b"semaphore"), None)


def role(value: bytes | None) -> Role:
    """Decode the role of a share: a slot of a semaphore, a read or a write lock."""
    return cast("Role", string(value))


def integer(value: bytes | None) -> int:
    """Decode a whole number; 0 for NULL."""
    return int(value or 0)


def number(value: bytes | None) -> float:
    """Decode a number, mostly of seconds; 0 for NULL."""
    return float(value or 0)


def string(value: bytes | None) -> str:
    """Decode text; empty for NULL."""
    return (value or b"").decode()


def flag(value: bytes | None) -> bool:
    """Decode a boolean; False for NULL."""
    return value == b"t"


def decode_busy(value: bytes) -> tuple[float, int, str]:
    """Decode what ``join`` returns of a held lock: for how long, how many wait, who holds it."""
    left, before, holder = value.split(b" ", 2)
    return float(left), int(before), holder.decode()
