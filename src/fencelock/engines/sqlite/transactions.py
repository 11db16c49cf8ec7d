"""The transactions of the embedded engine and their SQL: the recipe of ``memory.py``, with rows.

Each public method is one short transaction, or one read, that waits for nothing but the file
itself; no transaction is ever the lock. Methods that ``memory.py`` has, too, have its names here.

This file has the locks, and what concerns all rows of the file: semaphores and read/write locks are
left to ``shares.py``. Those have a key instead of a name, which no lock can have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from ...model import Grant, Request, State, next_fence
from .handover import (
    CLAIM_S,
    FORGET_S,
    NOBODY,
    SHARED_KEYS,
    Answer,
    Contended,
    Handover,
    Handovers,
    is_shared,
)
from .inspect import state
from .wire.database import Database

if TYPE_CHECKING:
    from .shares import Shares

P = ParamSpec("P")
R = TypeVar("R")

NEVER = float("inf")
PURGE_EVERY = 1000  # changes between two searches for rows that nobody will use again

# The two statements of a lock without contention, each a transaction by itself. They change nothing
# when anything is unusual, and a longer transaction decides. A trigger keeps the highest fence.
TAKE_FREE = """
INSERT INTO locks SELECT ?, ?, ?, ?, ?, ?, 1, ?
WHERE ? > (SELECT fence FROM locks WHERE name = '')
  AND NOT EXISTS (SELECT 1 FROM waiters WHERE name = ?)
  AND NOT EXISTS (SELECT 1 FROM locks WHERE name = ?)
"""
GIVE_BACK = """
DELETE FROM locks WHERE name = ? AND owner = ? AND expires_at > ?
  AND NOT EXISTS (SELECT 1 FROM waiters WHERE name = ?)
"""

CURRENT = """
SELECT mark.fence, l.owner, l.fence, l.expires_at, l.claimed, l.meta,
       EXISTS (SELECT 1 FROM waiters WHERE waiters.name = ?)
FROM locks mark LEFT JOIN locks l ON l.name = ? WHERE mark.name = ''
"""

DUE_WAITERS = """
SELECT w.name, w.owner, w.lapsed OR (l.owner IS w.owner AND l.expires_at > ?1)
FROM waiters w LEFT JOIN locks l ON l.name = w.name
WHERE w.inbox = ?2
  AND (l.name IS NULL OR l.expires_at <= ?1 OR (l.owner = w.owner AND NOT l.claimed))
UNION ALL
SELECT w.key, w.owner, w.lapsed OR (s.owner IS NOT NULL AND s.expires_at > ?1)
FROM share_waiters w JOIN share_names n ON n.key = w.key
  LEFT JOIN shares s ON s.key = w.key AND s.owner = w.owner
WHERE w.inbox = ?2
  AND (w.lapsed OR n.ends_at <= ?1 OR s.owner IS NOT NULL OR (n.used + w.units <= n.capacity
    AND NOT EXISTS (
      SELECT 1 FROM share_waiters a WHERE a.key = w.key AND a.place < w.place
        AND NOT a.lapsed AND a.seen_at >= ?3
        AND NOT EXISTS (SELECT 1 FROM shares WHERE key = a.key AND owner = a.owner))))
"""
NEXT_EXPIRY = """
SELECT MIN(l.expires_at) FROM waiters w JOIN locks l ON l.name = w.name
WHERE w.inbox = ?1 AND l.expires_at > ?2
UNION ALL
SELECT MIN(n.ends_at) FROM share_waiters w JOIN share_names n ON n.key = w.key
WHERE w.inbox = ?1 AND n.ends_at > ?2
"""
CHANGES = "PRAGMA data_version"


class LockState(NamedTuple):
    """The row of a name, which a transaction reads first."""

    mark: int
    """The highest fence of all names."""
    owner: str | None
    fence: int
    expires_at: float
    claimed: int
    meta: str
    queued: int
    """Whether the queue has any waiter."""


def in_transaction(
    body: Callable[Concatenate[Transactions, float, P], R],
) -> Callable[Concatenate[Transactions, float, P], R]:
    """Make a method one transaction; its ``now`` is the moment at which the file was free."""

    def run(self: Transactions, now: float, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.db.transaction(now, lambda now: body(self, now, *args, **kwargs))

    return run


class Transactions:
    """The rows of one file, as one client sees and changes them."""

    def __init__(self, database: Database, wall_us: Callable[[], int]) -> None:
        self.db = database
        self._wall_us = wall_us
        self._fence = 0
        self._changes = 0
        self._contended = Contended()

    @cached_property
    def shares(self) -> Shares:
        """Semaphores and read/write locks; a program without any does not import them."""
        from .shares import Shares

        return Shares(self.db, self._wall_us)

    def acquire(self, now: float, request: Request, inbox: str) -> Answer:
        """Take a free lock, or claim one that was handed over; else join the queue if requested."""
        name, owner, ttl, meta, queue, waits, _, share = request
        if share is not None:
            self.count_change(now)
            return self.shares.acquire(now, request, share, inbox)
        taken: bool | None = False
        if not queue and name not in self._contended:
            self.count_change(now)  # first: if it fails, nothing has happened
            fence = next_fence(0, self._wall_us())
            row = (name, owner, fence, ttl, now, now + ttl, meta, fence, name, name)
            taken = self.db.autocommit(now, TAKE_FREE, row)
            if taken:
                return Answer(fence)
        if waits and not queue and taken is False:
            return Answer()  # the client tries again at once, and joins the queue
        return self._acquire(now, request, inbox)

    @in_transaction
    def _acquire(self, now: float, request: Request, inbox: str) -> Answer:
        name, owner = request.name, request.owner
        row, handovers = self._current(now, name)
        if row.owner is None:
            self._give(row, name, owner, request.ttl, request.meta, now, now + request.ttl, 1)
            if row.queued:
                self._leave_queue(name, owner)
            return Answer(fence=self._fence)
        if row.owner == owner:
            self.db.execute(
                "UPDATE locks SET expires_at=?, ttl=?, claimed=1 WHERE name=?",
                (now + request.ttl, request.ttl, name),
            )
            self._leave_queue(name, owner)
            return Answer(fence=row.fence)
        self._contended.note(name)  # ``_leave`` removes it
        position = self._join_queue(request, now, inbox) if request.queue else 0
        return Answer(0, position, row.meta, handovers)

    def acquire_all(self, now: float, requests: Sequence[Request]) -> tuple[list[int], Answer]:
        """Take all of these locks; else return none, and the answer for the first that is held."""
        self.count_change(now)
        return self._acquire_all(now, requests)

    @in_transaction
    def _acquire_all(self, now: float, requests: Sequence[Request]) -> tuple[list[int], Answer]:
        rows: list[LockState] = []
        for request in requests:
            row, handovers = self._current(now, request.name)
            if row.owner is not None:
                self._contended.note(request.name)
                return [], Answer(0, len(rows), row.meta, handovers)
            rows.append(row)
        fences = [rows[0].mark]
        for row, (name, owner, ttl, meta, *_) in zip(rows, requests, strict=True):
            self._give(row._replace(mark=fences[-1]), name, owner, ttl, meta, now, now + ttl, 1)
            fences.append(self._fence)
        return fences[1:], Answer()

    def _join_queue(self, request: Request, now: float, inbox: str) -> int:
        """Join the queue, or refresh the row there; return how many are ahead."""
        name, owner = request.name, request.owner
        changed = self.db.execute(
            "UPDATE waiters SET seen_at=?, lapsed=0, inbox=? WHERE name=? AND owner=?",
            (now, inbox, name, owner),
        ).rowcount
        if not changed:
            self.db.execute(
                "INSERT INTO waiters SELECT ?, COALESCE(MAX(place), 0) + 1,"
                " ?, ?, ?, ?, 0, ?, ? FROM waiters WHERE name=?",
                (name, owner, request.ttl, now, now, inbox, request.meta, name),
            )
        (position,) = self.db.execute(
            "SELECT COUNT(*) FROM waiters WHERE name=? AND place <"
            " (SELECT place FROM waiters WHERE name=? AND owner=?)",
            (name, name, owner),
        ).fetchone()
        return int(position)

    def _leave_queue(self, name: str, owner: str) -> None:
        self.db.execute("DELETE FROM waiters WHERE name=? AND owner=?", (name, owner))

    def _current(self, now: float, name: str) -> tuple[LockState, Handovers]:
        """Return the state of a name; end an expired record, and hand the lock on."""
        row = LockState(*self.db.execute(CURRENT, (name, name)).fetchone())
        if row.owner is not None and row.expires_at > now:
            return row, NOBODY
        if row.owner is not None:
            self.db.execute("DELETE FROM locks WHERE name=?", (name,))
            if not row.claimed:
                self.db.execute(
                    "UPDATE waiters SET lapsed=1 WHERE name=? AND owner=?", (name, row.owner)
                )
            row = row._replace(owner=None)
        if not row.queued:
            return row, NOBODY
        return self._hand_on(now, name, row)

    def _hand_on(self, now: float, name: str, row: LockState) -> tuple[LockState, Handovers]:
        """Give a free lock to the first waiter that answers."""
        self.db.execute("DELETE FROM waiters WHERE name=? AND seen_at<?", (name, now - FORGET_S))
        head = self.db.execute(
            "SELECT owner, ttl, inbox, meta FROM waiters"
            " WHERE name=? AND NOT lapsed ORDER BY place LIMIT 1",
            (name,),
        ).fetchone()
        if head is None:
            return row, NOBODY
        owner, ttl, inbox, meta = head
        until = now + min(CLAIM_S, ttl)
        self._give(row, name, owner, ttl, meta, now, until, 0)
        held = row._replace(
            mark=self._fence, owner=owner, fence=self._fence, expires_at=until, claimed=0, meta=meta
        )
        return held, [Handover(name, owner, inbox)]

    def _give(
        self,
        row: LockState,
        name: str,
        owner: str,
        ttl: float,
        meta: str,
        now: float,
        until: float,
        claimed: int,
    ) -> None:
        self._fence = next_fence(row.mark, self._wall_us())
        self.db.execute(
            "INSERT INTO locks VALUES (?,?,?,?,?,?,?,?)",
            (name, owner, self._fence, ttl, now, until, claimed, meta),
        )

    def count_change(self, now: float) -> None:
        """Count a change, and purge now and then."""
        self._changes += 1
        if self._changes % PURGE_EVERY == 0:
            self.purge(now)

    @in_transaction
    def purge(self, now: float) -> None:
        """Remove what crashed processes left behind: no row stays for a name that nobody uses."""
        self.db.execute(
            "DELETE FROM locks WHERE expires_at<? AND name NOT IN (SELECT name FROM waiters)",
            (now - FORGET_S,),
        )
        self.db.execute(
            "DELETE FROM shares WHERE expires_at<? AND key NOT IN (SELECT key FROM share_waiters)",
            (now - FORGET_S,),
        )
        self.db.execute("DELETE FROM waiters WHERE seen_at<?", (now - FORGET_S,))
        self.db.execute("DELETE FROM share_waiters WHERE seen_at<?", (now - FORGET_S,))
        self.db.execute("DELETE FROM revoked WHERE until<?", (now,))
        self.db.execute(
            "DELETE FROM memos WHERE name IN"
            " (SELECT name FROM memos GROUP BY name HAVING MAX(until)<=?)",
            (now,),
        )

    def leave(self, now: float, name: str, owner: str) -> tuple[bool, Handovers]:
        """Take an owner out of the lock and out of the queue; True when it held the lock."""
        if is_shared(name):
            return self.shares.leave(now, name, owner)
        if name not in self._contended and self.db.autocommit(
            now, GIVE_BACK, (name, owner, now, name)
        ):
            return True, NOBODY
        return self.db.transaction(now, lambda now: self._leave(now, name, owner))

    def _leave(self, now: float, name: str, owner: str) -> tuple[bool, Handovers]:
        row = LockState(*self.db.execute(CURRENT, (name, name)).fetchone())
        if row.queued:
            self._leave_queue(name, owner)
        else:
            self._contended.discard(name)
        if row.owner != owner:
            return False, NOBODY
        self.db.execute("DELETE FROM locks WHERE name=?", (name,))
        held = row.expires_at > now
        if not row.queued:
            return held, NOBODY
        return held, self._hand_on(now, name, row._replace(owner=None))[1]

    @in_transaction
    def leave_all(
        self, now: float, holders: Sequence[tuple[str, str]]
    ) -> list[tuple[bool, Handovers]]:
        """Take owners out of locks, each as ``leave`` does."""
        return [self._leave(now, name, owner) for name, owner in holders]

    @in_transaction
    def renew(self, now: float, grants: Sequence[Grant]) -> dict[str, str | None]:
        """Extend all grants; return the owners whose record is gone, each with a reason or None."""
        locks = [grant for grant in grants if grant.share is None]
        gone: dict[str, str | None] = {}
        if len(locks) < len(grants):
            shares = [grant for grant in grants if grant.share is not None]
            for grant in self.shares.renew(now, shares):
                gone[grant.owner] = self._why(grant.owner)
        changed = self.db.executemany(
            "UPDATE locks SET expires_at=?, ttl=? WHERE name=? AND owner=? AND expires_at>?",
            ((now + ttl, ttl, name, owner, now) for name, owner, _, ttl, _, _, _ in locks),
        ).rowcount
        if changed == len(locks):
            return gone
        for grant in locks:
            row = self.db.execute("SELECT owner FROM locks WHERE name=?", (grant.name,)).fetchone()
            if row is None or row[0] != grant.owner:
                gone[grant.owner] = self._why(grant.owner)
            elif self.db.execute(
                "SELECT 1 FROM locks WHERE name=? AND expires_at<=?", (grant.name, now)
            ).fetchone():
                gone[grant.owner] = None
        return gone

    def _why(self, owner: str) -> str | None:
        row = self.db.execute("SELECT reason FROM revoked WHERE owner=?", (owner,)).fetchone()
        return str(row[0]) if row else None

    @in_transaction
    def revoke(self, now: float, name: str, reason: str) -> tuple[bool, Handovers]:
        """End all holds of a name, of each kind, and keep the reason; False if nobody holds it."""
        row, handovers = self._current(now, name)
        ends: dict[str, float] = {}
        if row.owner is not None and row.claimed:
            ends[row.owner] = row.expires_at
            handovers = self._leave(now, name, row.owner)[1]
        for key in SHARED_KEYS.values():
            more, handed = self.shares.revoke(now, key + name)
            ends |= more
            handovers = [*handovers, *handed]
        self.db.executemany(
            "INSERT OR REPLACE INTO revoked VALUES (?,?,?)",
            ((owner, reason, end + FORGET_S) for owner, end in ends.items()),
        )
        return bool(ends), handovers

    @in_transaction
    def refresh(self, now: float, inbox: str) -> int:
        """Refresh the queue rows of an inbox; return how many there are."""
        return sum(
            self.db.execute(f"UPDATE {table} SET seen_at=? WHERE inbox=?", (now, inbox)).rowcount
            for table in ("waiters", "share_waiters")
        )

    def due_waiters(self, now: float, inbox: str) -> tuple[list[tuple[str, str, int]], float]:
        """Return the waiters of an inbox that have something to do, and when the next lease ends.

        A waiter must try again (1) if it was handed the lock, or passed over while the lock is
        free; else (0) the lock is free or has expired, and must be handed on.
        """
        rows = self.db.read(now, DUE_WAITERS, (now, inbox, now - FORGET_S))
        ends = self.db.read(now, NEXT_EXPIRY, (inbox, now))
        soonest = min((end for (end,) in ends if end is not None), default=NEVER)
        return [(name, owner, wakes) for name, owner, wakes in rows], soonest

    @in_transaction
    def hand_on_if_free(self, now: float, name: str) -> Handovers:
        """Hand the lock on if it is free or expired."""
        if is_shared(name):
            return self.shares.current(now, name)[1]
        return self._current(now, name)[1]

    @in_transaction
    def drop_dead_client(self, now: float, handover: Handover) -> Handovers:
        """Delete the rows of a waiter whose process is gone, and hand the lock on at once."""
        self.db.execute("DELETE FROM waiters WHERE inbox=?", (handover.inbox,))
        self.db.execute("DELETE FROM share_waiters WHERE inbox=?", (handover.inbox,))
        return self._drop_unclaimed(now, handover)

    @in_transaction
    def drop_abandoned(self, now: float, waiter: Handover) -> Handovers:
        """Delete the row of a waiter that nobody watches, and what it was handed and never claimed.

        A row of another inbox stays, and so does a claimed lock: the same owner has sent its
        request again through another client since, and waits or holds there.
        """
        rows = "share_waiters WHERE key" if is_shared(waiter.name) else "waiters WHERE name"
        if not self.db.execute(f"DELETE FROM {rows}=? AND owner=? AND inbox=?", waiter).rowcount:
            return NOBODY
        return self._drop_unclaimed(now, waiter)

    def _drop_unclaimed(self, now: float, handover: Handover) -> Handovers:
        if is_shared(handover.name):
            return self.shares.drop_unclaimed(now, handover)
        self.db.execute(
            "DELETE FROM locks WHERE name=? AND owner=? AND NOT claimed",
            (handover.name, handover.owner),
        )
        return self._current(now, handover.name)[1]

    @in_transaction
    def inspect(self, now: float, name: str) -> tuple[State, Handovers]:
        """Return who holds a name and who waits for it; what is free is handed on before."""
        handovers = [*self._current(now, name)[1]]
        for key in SHARED_KEYS.values():
            handovers += self.shares.current(now, key + name)[1]
        return state(self.db, now, name), handovers

    def changes(self, now: float) -> object:
        """Return a value that differs once another client has changed the file."""
        return self.db.read(now, CHANGES, ())

    def changes_nowait(self) -> object | None:
        """Return the same without ever waiting; None where it would have to wait."""
        return self.db.read_nowait(CHANGES)
