"""What the rows of our statements say, in the words of the model."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...model import Grant, Holding
from .wire.connection import Row

RENEWAL_MIN_S = 0.2


def soon(grants: Sequence[Grant]) -> float:
    """How long a renewal may take so that another still comes in time."""
    return max(RENEWAL_MIN_S, min(grant.ttl for grant in grants) / 5)


def holding(row: Row) -> Holding:
    """A holder as the statements tell of one."""
    name, fence, ttl, age, remaining, meta = row
    words = json.loads(string(meta))
    return Holding(
        string(name), integer(fence), number(ttl), max(0.0, number(age)), number(remaining), words
    )


def integer(value: bytes | None) -> int:
    """A whole number, 0 for none."""
    return int(value or 0)


def number(value: bytes | None) -> float:
    """Seconds, mostly."""
    return float(value or 0)


def string(value: bytes | None) -> str:
    """Text, empty for none."""
    return (value or b"").decode()
