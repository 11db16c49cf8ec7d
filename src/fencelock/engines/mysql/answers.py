"""What the rows mean that the server answers with in ``mode=lease``."""

from __future__ import annotations

import json

from ...model import Gone, Grant, Holding
from .wire.codec import Row


def holding(row: Row) -> Holding:
    """One who holds."""
    name, fence, ttl, age, left, meta = row
    return Holding(
        words(name),
        number(fence),
        number(ttl) / 1e6,
        max(0.0, number(age) / 1e6),
        number(left) / 1e6,
        json.loads(words(meta)),
    )


def gone(told: dict[str, bytes | None], grant: Grant) -> Gone:
    """Why a grant is no more."""
    reason = told.get(grant.owner)
    if reason is not None:
        return Gone("revoked", reason.decode())
    return Gone("expired", "its row is gone from the table, or has run out")


def number(value: bytes | None) -> int:
    return int(value or 0)


def words(value: bytes | None) -> str:
    return (value or b"").decode()
