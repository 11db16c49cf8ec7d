"""What the memory engine keeps of one name: how many units each holder has, the queue for them, and
what is remembered."""

from __future__ import annotations

from typing import NamedTuple

from ..model import Request, Share, units_of
from ..world import snapshot

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
FORGET_S = 30.0  # a waiter that has not looked for so long is dead
KINDS = ("lock", "semaphore", "rwlock")

Key = tuple[str, str]
"""The kind of a name, and the name: names of different kinds have nothing in common."""


def key_of(name: str, share: Share | None) -> Key:
    return ("lock" if share is None else share.kind, name)


class Record:
    def __init__(self, request: Request, fence: int, now: float, claimed: bool) -> None:
        _, self.owner, self.ttl, self.meta, _, _, _, self.share = request
        self.fence = fence
        self.since = now
        self.expires_at = now + (self.ttl if claimed else min(CLAIM_S, self.ttl))
        self.claimed = claimed


class Waiter:
    def __init__(self, request: Request, now: float) -> None:
        self.request = request
        self.since = self.seen_at = now
        self.lapsed = False


class Name:
    """The holders and the waiters of one name.

    What is free is not kept but counted. An exception of a signal handler may end any step at any
    bytecode: so each step changes one thing, and nothing has to agree with it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.records: dict[str, Record] = {}
        self.queue: dict[str, Waiter] = {}

    @property
    def free(self) -> int:
        """The units that no record has."""
        if not self.records:
            return self.limit
        return self.limit - sum([units_of(record.share) for record in self.records.values()])

    def add(self, record: Record) -> None:
        if record.share is not None and record.share.kind == "semaphore":
            taken = {r.share.slot for r in self.records.values() if r.share is not None}
            slot = next(slot for slot in range(self.limit) if slot not in taken)
            record.share = record.share._replace(slot=slot)
        self.records[record.owner] = record

    def shrink(self, record: Record, wanted: Share | None) -> None:
        """Keep no more units than its holder requests now: a writer becomes a reader."""
        if record.share is not None and wanted is not None and wanted.units < record.share.units:
            record.share = record.share._replace(units=wanted.units)

    def expire(self, now: float) -> None:
        """Remove expired records; a waiter that did not claim in time has lapsed."""
        for record in [r for r in self.records.values() if r.expires_at <= now]:
            del self.records[record.owner]
            if not record.claimed and record.owner in self.queue:
                self.queue[record.owner].lapsed = True

    def first(self, now: float) -> str | None:
        """Return the next owner: the first waiter that answers and was not handed anything yet."""
        for owner, waiter in snapshot(self.queue):
            if now - waiter.seen_at > FORGET_S:
                del self.queue[owner]
            elif not waiter.lapsed and owner not in self.records:
                return owner
        return None


class Memo(NamedTuple):
    """The items that are remembered for one name, and until when."""

    items: dict[str, int]
    until: float
