"""Semaphores and read/write locks in one file: names with units, of which several owners hold some.

Each step of ``memory.py`` is one short transaction; ``sql/shares.sql`` has the statements. Two
constraints of the schema stand behind them (``sql/schema.sql``): the units in use never exceed the
capacity, and no slot has two holders.

* The row of a name says how many units are in use and before which moment no share ends, and
  triggers maintain it. So a grant, a renewal and a release cost the same beside one holder and
  beside thousands. The holders of a name are searched only at the moment at which the first share
  may have ended, and then not again before the next such moment.
* Release and expiry hand on to all at the head of the queue that fit; the first that does not fit
  holds back all behind it.
* Fences are those of the locks: one counter, lifted to the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...model import Grant, Request, Share, next_fence
from .._sql.sections import composed
from .handover import (
    CLAIM_S,
    FORGET_S,
    NOBODY,
    Answer,
    Contended,
    Handover,
    Handovers,
    key_of,
)
from .wire.database import RETURNING, Database

SQL = composed(Path(__file__).parent / "sql" / "shares.sql")
TAKE_FREE, TAKE_FREE_SLOT, GIVE_BACK = SQL["take_free"], SQL["take_free_slot"], SQL["give_back"]


class NameState(NamedTuple):
    """The row of a name, which a transaction reads first."""

    mark: int
    """The highest fence of all names."""
    capacity: int | None
    """How many units there are; None while there is no holder and no waiter."""
    used: int
    ends_at: float
    """No share ends before this moment."""
    queued: int
    """Whether the queue has any waiter."""

    @property
    def free(self) -> int:
        return (self.capacity or 0) - self.used


class QueuedShare(NamedTuple):
    """A waiter that could be next, or a request as if it were one."""

    place: int
    owner: str
    units: int
    capacity: int
    ttl: float
    inbox: str
    meta: str
    is_dead: int


class Shares:
    """The rows of semaphores and read/write locks, as one client sees and changes them."""

    def __init__(self, database: Database, wall_us: Callable[[], int]) -> None:
        self.db = database
        self._wall_us = wall_us
        self._contended = Contended()

    def acquire(self, now: float, request: Request, share: Share, inbox: str) -> Answer:
        """Take free units, or claim those handed over; else join the queue if requested."""
        _, owner, ttl, meta, queue, waits, _, _ = request
        key = key_of(request.name, share)
        taken: tuple[int, ...] | bool | None = False
        if not queue and key not in self._contended:
            fence = next_fence(0, self._wall_us())
            row = (key, owner, share.units, share.limit, fence, ttl, now, now + ttl, 1, meta)
            if share.kind == "rwlock":
                taken = self.db.autocommit(now, TAKE_FREE, row)
            else:
                taken = (
                    self.db.autocommit_returning(now, TAKE_FREE_SLOT, row) if RETURNING else None
                )
            if taken:
                slot = taken[0] if isinstance(taken, tuple) else None
                return Answer(
                    fence, 0, "", NOBODY, Share(share.kind, share.units, share.limit, slot)
                )
        if waits and not queue and taken is False:
            return Answer()  # the client tries again at once, and joins the queue
        return self.db.transaction(now, lambda now: self._acquire(now, key, request, share, inbox))

    def _acquire(self, now: float, key: str, request: Request, share: Share, inbox: str) -> Answer:
        owner, until = request.owner, now + request.ttl
        name, handovers = self.current(now, key)
        if name.capacity not in (None, share.limit):
            return Answer(handovers=handovers, limit=name.capacity or 0)
        if name.queued and request.queue:  # this waiter looks: it is not passed over any more
            self.db.execute(SQL["see"], (key, owner, now, inbox))
        if self._record(key, owner) is not None:
            self.db.execute(SQL["claim"], (key, owner, share.units, request.ttl, until))
        elif self._may_take(now, key, name, owner, share):
            wish = QueuedShare(0, owner, share.units, share.limit, request.ttl, "", request.meta, 0)
            self._give(name, key, wish, now, until, claimed=1)
        else:
            self._contended.note(key)
            position = self._join_queue(key, request, share, now, inbox) if request.queue else 0
            return Answer(0, position, self._holder(key), handovers)
        if name.queued:  # a writer that became a reader lets others in
            self.db.execute(SQL["leave"], (key, owner))
            handovers = [*handovers, *self._hand_on(now, key, self._state(key))[1]]
        fence, units, slot = self._record(key, owner) or (0, 0, None)
        return Answer(fence, 0, "", handovers, share._replace(units=units, slot=slot))

    def _record(self, key: str, owner: str) -> tuple[int, int, int | None] | None:
        """Return the fence, the units and the slot that an owner has."""
        found: tuple[int, int, int | None] | None
        found = self.db.execute(SQL["record"], (key, owner)).fetchone()
        return found

    def _holder(self, key: str) -> str:
        row = self.db.execute(SQL["any_meta"], (key,)).fetchone()
        return str(row[0]) if row else ""

    def _may_take(self, now: float, key: str, name: NameState, owner: str, share: Share) -> bool:
        """Return whether the free units suffice and no waiter that answers is before this owner."""
        if name.capacity is None:
            return True
        if name.free < share.units:
            return False
        first = self._first(now, key, 0) if name.queued else None
        return first is None or first.owner == owner

    def _first(self, now: float, key: str, place: int) -> QueuedShare | None:
        """Return the first waiter behind a position in the queue; delete dead ones on the way."""
        while row := self.db.execute(SQL["next_waiter"], (key, place, now - FORGET_S)).fetchone():
            waiter = QueuedShare(*row)
            if not waiter.is_dead:
                return waiter
            self.db.execute(SQL["leave"], (key, waiter.owner))
        return None

    def _join_queue(self, key: str, request: Request, share: Share, now: float, inbox: str) -> int:
        """Join the queue unless the owner is in it; return how many are ahead."""
        owner, ttl, meta = request.owner, request.ttl, request.meta
        if not self.db.execute(SQL["waits"], (key, owner)).fetchone():
            row = (key, owner, share.units, share.limit, ttl, now, inbox, meta)
            self.db.execute(SQL["join"], row)
        (position,) = self.db.execute(SQL["position"], (key, owner)).fetchone()
        return int(position)

    def _state(self, key: str) -> NameState:
        return NameState(*self.db.execute(SQL["state"], (key,)).fetchone())

    def current(self, now: float, key: str) -> tuple[NameState, Handovers]:
        """Return the state of a name; end expired shares, and hand on what is free."""
        name = self._state(key)
        if name.ends_at <= now:
            name = self._expire(now, key)
        return self._hand_on(now, key, name) if name.queued else (name, NOBODY)

    def _expire(self, now: float, key: str) -> NameState:
        """Delete expired shares; a waiter that did not claim in time has lapsed."""
        self.db.execute(SQL["mark_lapsed"], (key, now))
        self.db.execute(SQL["expire"], (key, now))
        self.db.execute(SQL["next_end"], (key,))
        return self._state(key)

    def _hand_on(self, now: float, key: str, name: NameState) -> tuple[NameState, Handovers]:
        """Give what is free to the first waiters that answer, as far as it fits."""
        handovers: list[Handover] = []
        place = 0
        while name.free > 0 and (waiter := self._first(now, key, place)) is not None:
            if waiter.units > name.free:
                break
            until = now + min(CLAIM_S, waiter.ttl)
            mark = self._give(name, key, waiter, now, until, claimed=0)
            handovers.append(Handover(key, waiter.owner, waiter.inbox))
            place = waiter.place
            name = name._replace(mark=mark, used=name.used + waiter.units)
        return name, handovers

    def _give(
        self, name: NameState, key: str, to: QueuedShare, now: float, until: float, claimed: int
    ) -> int:
        """Insert a share, in the lowest free slot if it is a semaphore's; return its fence."""
        fence = next_fence(name.mark, self._wall_us())
        row = (key, to.owner, to.units, to.capacity, fence, to.ttl, now, until, claimed, to.meta)
        self.db.execute(SQL["give"], row)
        return fence

    def leave(self, now: float, key: str, owner: str) -> tuple[bool, Handovers]:
        """Take an owner out of the holders and out of the queue; True when it held a share."""
        if key not in self._contended and self.db.autocommit(now, GIVE_BACK, (key, owner, now)):
            return True, NOBODY
        return self.db.transaction(now, lambda now: self._leave(now, key, owner))

    def _leave(self, now: float, key: str, owner: str) -> tuple[bool, Handovers]:
        name = self._state(key)
        if name.queued:
            self.db.execute(SQL["leave"], (key, owner))
        else:
            self._contended.discard(key)
        if name.ends_at <= now:
            self._expire(now, key)
        held = self.db.execute(SQL["remove"], (key, owner)).rowcount == 1
        return held, self._hand_on(now, key, self._state(key))[1] if name.queued else NOBODY

    def renew(self, now: float, grants: Sequence[Grant]) -> list[Grant]:
        """Extend all grants, within a transaction; return those whose record is gone."""
        rows = [(key_of(grant.name, grant.share), grant.owner, grant.ttl, now) for grant in grants]
        if self.db.executemany(SQL["renew"], rows).rowcount == len(rows):
            return []
        return [
            grant
            for grant, (key, owner, _, _) in zip(grants, rows, strict=True)
            if not self.db.execute(SQL["live"], (key, owner, now)).fetchone()
        ]

    def revoke(self, now: float, key: str) -> tuple[dict[str, float], list[Handover]]:
        """Take a name from all its holders, within a transaction; return when each would end."""
        handovers = [*self.current(now, key)[1]]
        ends: dict[str, float] = dict(self.db.execute(SQL["claimed"], (key,)).fetchall())
        for owner in ends:
            handovers += self._leave(now, key, owner)[1]
        return ends, handovers

    def drop_unclaimed(self, now: float, handover: Handover) -> Handovers:
        """Take back what a dead waiter was handed, within a transaction, and hand it on."""
        self.db.execute(SQL["remove_unclaimed"], (handover.name, handover.owner))
        return self.current(now, handover.name)[1]
