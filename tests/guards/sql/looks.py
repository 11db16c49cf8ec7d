"""What the tests of SQL guards offer, and how they see what became of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.guards.sql.conftest import Place
from tests.guards.sql.hands import Hand

NAME = "stock:42"


class Lease(NamedTuple):
    """As much of a lease as a guard looks at."""

    name: str
    fence: int


def seen(place: Place, hand: Hand, name: str = NAME) -> int:
    mark = hand.do(place.guard.mark(hand.connection, name))
    hand.rollback()
    return int(mark)


def n(place: Place, hand: Hand, key: int = 42) -> tuple[Any, ...]:
    rows = hand.execute(f"SELECT n, fence FROM {place.rows.table} WHERE id = {key}")
    hand.rollback()
    return rows[0]
