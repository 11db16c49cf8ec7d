"""Who stands before a contender: all of them where the queue is short, its ends where it is long.

Reading a queue takes as long as it is, and all who stand in it read it: hundreds of waiters would
keep each other from their turns. The key right before ours and the first are all that a waiter
must know.
"""

from __future__ import annotations

from typing import NamedTuple

from . import replies, requests
from .link import RANGE, TXN, Link
from .naming import Naming, meta_text
from .replies import KeyValue
from .tenancy import Place

LONG = 32


class Ahead(NamedTuple):
    """What a contender sees before it, at a revision."""

    revision: int
    mine: KeyValue | None
    """Its own key, without a value; None when that is gone."""
    first: KeyValue | None
    """Who holds the lock; None when nobody stands before us."""
    last: KeyValue | None
    """Who goes right before us."""
    total: int | None
    """How many there are, if that was read."""

    @property
    def is_long(self) -> bool:
        return self.total is None or self.total > LONG


class Looking:
    """Reads queues for one client."""

    def __init__(self, link: Link, naming: Naming) -> None:
        self._link = link
        self._naming = naming

    def joined(self, name: str, place: Place, outcome: replies.Outcome) -> Ahead | None:
        """What a newcomer was told with its place; None when that says too little."""
        last_two, first, mine = outcome.found
        ends = [*first.pairs, *reversed(last_two.pairs)]
        if len(self._naming.contenders(name, ends)) < 3 or ends[-1].key != place.key:
            return None  # it has stood there before, or there are contenders for names below
        place.holder = (ends[0].key, meta_text(ends[0].value))
        return Ahead(outcome.revision, mine.pairs[0], ends[0], ends[1], last_two.total - 1)

    async def ahead(self, name: str, place: Place) -> Ahead:
        """What stands before a place now. Who is called mostly finds nobody."""
        ways = self._naming.ways(name)
        look = requests.range_of(
            ways.lower, ways.upper, limit=LONG + 1, keys_only=True, created_max=place.created
        )
        everybody = replies.read_range(await self._link.call(RANGE, look, reads=True))
        if everybody.more and (found := await self._ends(name, place)) is not None:
            return found
        if everybody.more:
            look = requests.range_of(
                ways.lower, ways.upper, keys_only=True, created_max=place.created
            )
            everybody = replies.read_range(await self._link.call(RANGE, look, reads=True))
        order = self._naming.contenders(name, everybody.pairs)
        mine = order.pop() if order and _is_of(place, order[-1]) else None
        if not order:
            return Ahead(everybody.revision, mine, None, None, 0)
        return Ahead(everybody.revision, mine, order[0], order[-1], len(order))

    async def _ends(self, name: str, place: Place) -> Ahead | None:
        """The same of a long queue; None when there are contenders for names below."""
        ways = self._naming.ways(name)
        last_two = requests.range_of(
            ways.lower,
            ways.upper,
            limit=2,
            newest_first=True,
            keys_only=True,
            created_max=place.created,
        )
        reads = [requests.do_range(last_two), requests.do_range(ways.first)]
        answer = await self._link.call(TXN, requests.txn([], reads), reads=True)
        outcome = replies.read_txn(answer)
        near, first = (found.pairs for found in outcome.found)
        if len(self._naming.contenders(name, [*near, *first])) < len(near) + len(first):
            return None
        mine = near[0] if near and _is_of(place, near[0]) else None
        if mine is None or len(near) < 2:
            return Ahead(outcome.revision, mine, None, None, 0)
        place.holder = (first[0].key, meta_text(first[0].value))
        return Ahead(outcome.revision, mine, first[0], near[1], None)


def _is_of(place: Place, pair: KeyValue) -> bool:
    return (pair.key, pair.created) == (place.key, place.created)
