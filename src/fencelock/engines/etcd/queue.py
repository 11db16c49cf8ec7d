"""Read the queue of a mutex: all of it if it is short, its two ends if it is long.

The time to read a queue grows with its length, and all its waiters read it: hundreds of them would
delay each other's locks. A waiter only needs the key right before its own and the first.
"""

from __future__ import annotations

from typing import NamedTuple

from ...model import Grant
from .cluster import Cluster
from .keys import Keys, meta_text, owner_of
from .messages import replies, requests
from .messages.replies import KeyValue
from .messages.requests import RANGE, TXN
from .own_key import OwnKey

LONG = 32


class Ahead(NamedTuple):
    """The queue before a contender's key, at one revision."""

    revision: int
    mine: KeyValue | None
    """Its own key, without the value; None if the key is gone."""
    first: KeyValue | None
    """The holder's key; None if no key is before ours."""
    last: KeyValue | None
    """The key right before ours."""
    total: int | None
    """How many keys are before ours; None if that was not read."""

    @property
    def is_long(self) -> bool:
        return self.total is None or self.total > LONG


class Queue:
    """Reads queues for one client, and changes nothing."""

    def __init__(self, cluster: Cluster, keys: Keys) -> None:
        self.cluster = cluster
        self.keys = keys

    def joined(self, name: str, own: OwnKey, reply: replies.TxnReply) -> Ahead | None:
        """Read the queue from the reply to a join; None if the reply does not contain enough."""
        last_two, first, mine = reply.found
        ends = [*first.pairs, *reversed(last_two.pairs)]
        if len(self.keys.contenders(name, ends)) < 3 or ends[-1].key != own.key:
            return None  # it was in the queue before, or there are contenders for names below
        own.holder = (ends[0].key, meta_text(ends[0].value))
        return Ahead(reply.revision, mine.pairs[0], ends[0], ends[1], last_two.total - 1)

    def held_elsewhere(self, own: OwnKey, reply: replies.TxnReply) -> KeyValue | None:
        """Return the holder's key from the reply to a join, if the owner put it by another
        client."""
        head = next(iter(reply.found[1].pairs), None)
        if head is None or head.key == own.key or owner_of(head.value) != own.owner:
            return None
        return head

    async def ahead(self, name: str, own: OwnKey) -> Ahead:
        """Read the queue before a key. A waiter that was woken mostly finds it empty."""
        name_requests = self.keys.requests(name)
        lower, upper = name_requests.lower, name_requests.upper
        read = requests.range_of(
            lower, upper, limit=LONG + 1, keys_only=True, created_max=own.created
        )
        everybody = await self._range(read)
        if everybody.more and (found := await self._ends(name, own)) is not None:
            return found
        if everybody.more:
            read = requests.range_of(lower, upper, keys_only=True, created_max=own.created)
            everybody = await self._range(read)
        order = self.keys.contenders(name, everybody.pairs)
        mine = order.pop() if order and _is_of(own, order[-1]) else None
        if not order:
            return Ahead(everybody.revision, mine, None, None, 0)
        return Ahead(everybody.revision, mine, order[0], order[-1], len(order))

    async def _ends(self, name: str, own: OwnKey) -> Ahead | None:
        """Read the two ends of a long queue; None if there are contenders for names below."""
        name_requests = self.keys.requests(name)
        last_two = requests.range_of(
            name_requests.lower,
            name_requests.upper,
            limit=2,
            newest_first=True,
            keys_only=True,
            created_max=own.created,
        )
        reads = [requests.do_range(last_two), requests.do_range(name_requests.first)]
        reply = replies.read_txn(await self.cluster.call(TXN, requests.txn([], reads), reads=True))
        near, first = (found.pairs for found in reply.found)
        if len(self.keys.contenders(name, [*near, *first])) < len(near) + len(first):
            return None
        mine = near[0] if near and _is_of(own, near[0]) else None
        if mine is None or len(near) < 2:
            return Ahead(reply.revision, mine, None, None, 0)
        own.holder = (first[0].key, meta_text(first[0].value))
        return Ahead(reply.revision, mine, first[0], near[1], None)

    async def everybody(self, name: str) -> list[KeyValue]:
        """Read the keys of all contenders for a name, the holder first; without their values."""
        found = await self._range(self.keys.requests(name).everybody)
        return self.keys.contenders(name, found.pairs)

    async def holder(self, own: OwnKey, key: bytes) -> str:
        """Return the meta of the holder; it is read only if the holder has changed."""
        if own.holder[0] != key:
            found = await self._range(requests.range_of(key))
            own.holder = (key, meta_text(found.pairs[0].value) if found.pairs else "")
        return own.holder[1]

    async def find(self, grant: Grant) -> KeyValue | None:
        """Find the key of a grant that another client has made."""
        bounds = self.keys.bounds(grant.name, grant.share)
        read = requests.range_of(*bounds, created_min=grant.fence, created_max=grant.fence)
        found = await self._range(read)
        ours = [pair for pair in found.pairs if owner_of(pair.value) == grant.owner]
        return ours[0] if ours else None

    async def _range(self, request: bytes) -> replies.RangeReply:
        return replies.read_range(await self.cluster.call(RANGE, request, reads=True))


def _is_of(own: OwnKey, pair: KeyValue) -> bool:
    return (pair.key, pair.created) == (own.key, own.created)
