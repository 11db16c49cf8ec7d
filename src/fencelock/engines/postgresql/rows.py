"""Decode the rows of our statements: libpq's text, in the words of the model."""

from __future__ import annotations

import json
from typing import TypeAlias

from ...model import Holding

Row: TypeAlias = tuple[bytes | None, ...]
Rows: TypeAlias = list[Row]


def holding(row: Row) -> Holding:
    """A holder, as the statements show one."""
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


def flag(value: bytes | None) -> bool:
    """Whether it is true."""
    return value == b"t"


def words(value: bytes) -> tuple[float, int, str]:
    """What ``join`` returns of a lock that is held: for how long, how many wait, who holds it."""
    left, before, holder = value.split(b" ", 2)
    return float(left), int(before), holder.decode()
