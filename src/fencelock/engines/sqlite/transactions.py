"""The transactions of the embedded engine, and all its SQL: what ``memory.py`` says, with rows.

Each public method is one short transaction, or one read, that waits for nothing but the file
itself; no transaction is ever the lock. Methods that ``memory.py`` has, too, have its names here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from ...model import Grant, Holding, Request, Waiting, next_fence
from .wire.database import Database

P = ParamSpec("P")
R = TypeVar("R")

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
FORGET_S = 30.0  # a waiter that has not looked for so long is dead
NEVER = float("inf")
CONTENDED_MAX = 1000
PURGE_EVERY = 1000  # grants between two searches for rows that nobody will use again

# The two statements of a lock that nobody contends for, each a transaction by itself.  They change
# nothing when anything is unusual, and the long way decides.  A trigger keeps the highest fence.
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
SELECT w.name, w.owner, w.lapsed OR (l.owner IS w.owner AND l.expires_at > ?)
FROM waiters w LEFT JOIN locks l ON l.name = w.name
WHERE w.inbox = ?
  AND (l.name IS NULL OR l.expires_at <= ? OR (l.owner = w.owner AND NOT l.claimed))
"""
NEXT_EXPIRY = """
SELECT MIN(l.expires_at) FROM waiters w JOIN locks l ON l.name = w.name
WHERE w.inbox = ? AND l.expires_at > ?
"""
CHANGES = "PRAGMA data_version"

QUEUE = "SELECT since, meta FROM waiters WHERE name=? ORDER BY place"
HELD = """
SELECT name, fence, ttl, since, expires_at, meta FROM locks
WHERE {which} AND expires_at > ? AND claimed ORDER BY name
"""
JOURNAL_AND_FENCE = """
SELECT j.journal_mode, (SELECT fence FROM locks WHERE name='') FROM pragma_journal_mode j
"""


class Handover(NamedTuple):
    """A waiter that was given the lock and has to be told."""

    name: str
    owner: str
    inbox: str


class Answer(NamedTuple):
    """What became of a request: a fence, or who is in the way."""

    fence: int = 0
    position: int = 0
    holder: str = ""
    handover: Handover | None = None


class LockState(NamedTuple):
    """What a transaction reads first about a name."""

    mark: int
    """The highest fence of all names."""
    owner: str | None
    fence: int
    expires_at: float
    claimed: int
    meta: str
    queued: int
    """Whether anybody waits."""


def in_transaction(
    body: Callable[Concatenate[Transactions, float, P], R],
) -> Callable[Concatenate[Transactions, float, P], R]:
    """Make a method one transaction, which begins at ``now`` or when the file is free."""

    def run(self: Transactions, now: float, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.db.transaction(now, lambda now: body(self, now, *args, **kwargs))

    return run


class Transactions:
    """The rows of one file, as one client sees and changes them."""

    def __init__(self, database: Database, wall_us: Callable[[], int]) -> None:
        self.db = database
        self._wall_us = wall_us
        self._fence = 0
        self._grants = 0
        self._contended: set[str] = set()

    def acquire(self, now: float, request: Request, inbox: str) -> Answer:
        """Take a free lock, or claim one that was handed over; else join the queue if asked to."""
        name, owner, ttl, meta, queue, waits, _, _ = request
        taken: bool | None = False
        if not queue and name not in self._contended:
            fence = next_fence(0, self._wall_us())
            row = (name, owner, fence, ttl, now, now + ttl, meta, fence, name, name)
            taken = self.db.autocommit(now, TAKE_FREE, row)
            if taken:
                self._grants += 1
                if self._grants % PURGE_EVERY == 0:
                    self.purge(now)
                return Answer(fence)
        if waits and not queue and taken is False:
            return Answer()  # the client tries again at once, and joins the queue
        return self._acquire(now, request, inbox)

    @in_transaction
    def _acquire(self, now: float, request: Request, inbox: str) -> Answer:
        name, owner = request.name, request.owner
        row, handover = self._current(now, name)
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
        self._remember_contended(name)
        position = self._join_queue(request, now, inbox) if request.queue else 0
        return Answer(0, position, row.meta, handover)

    def _remember_contended(self, name: str) -> None:
        """Spare a name the single statements, which are in vain; ``_leave`` ends that."""
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(name)

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

    def _current(self, now: float, name: str) -> tuple[LockState, Handover | None]:
        """Return the state of a name; end an expired record, and hand the lock on."""
        row = LockState(*self.db.execute(CURRENT, (name, name)).fetchone())
        if row.owner is not None and row.expires_at > now:
            return row, None
        if row.owner is not None:
            self.db.execute("DELETE FROM locks WHERE name=?", (name,))
            if not row.claimed:
                self.db.execute(
                    "UPDATE waiters SET lapsed=1 WHERE name=? AND owner=?", (name, row.owner)
                )
            row = row._replace(owner=None)
        if not row.queued:
            return row, None
        return self._hand_on(now, name, row)

    def _hand_on(self, now: float, name: str, row: LockState) -> tuple[LockState, Handover | None]:
        """Give a free lock to the first waiter that answers."""
        self.db.execute("DELETE FROM waiters WHERE name=? AND seen_at<?", (name, now - FORGET_S))
        head = self.db.execute(
            "SELECT owner, ttl, inbox, meta FROM waiters"
            " WHERE name=? AND NOT lapsed ORDER BY place LIMIT 1",
            (name,),
        ).fetchone()
        if head is None:
            return row, None
        owner, ttl, inbox, meta = head
        until = now + min(CLAIM_S, ttl)
        self._give(row, name, owner, ttl, meta, now, until, 0)
        held = row._replace(
            mark=self._fence, owner=owner, fence=self._fence, expires_at=until, claimed=0, meta=meta
        )
        return held, Handover(name, owner, inbox)

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

    @in_transaction
    def purge(self, now: float) -> None:
        """Remove what crashed processes left behind: no row stays for a name that nobody uses."""
        self.db.execute(
            "DELETE FROM locks WHERE expires_at<? AND name NOT IN (SELECT name FROM waiters)",
            (now - FORGET_S,),
        )
        self.db.execute("DELETE FROM waiters WHERE seen_at<?", (now - FORGET_S,))
        self.db.execute("DELETE FROM revoked WHERE until<?", (now,))

    def leave(self, now: float, name: str, owner: str) -> tuple[bool, Handover | None]:
        """Take an owner out of the lock and out of the queue; True when it held the lock."""
        if name not in self._contended and self.db.autocommit(
            now, GIVE_BACK, (name, owner, now, name)
        ):
            return True, None
        return self.db.transaction(now, lambda now: self._leave(now, name, owner))

    def _leave(self, now: float, name: str, owner: str) -> tuple[bool, Handover | None]:
        row = LockState(*self.db.execute(CURRENT, (name, name)).fetchone())
        if row.queued:
            self._leave_queue(name, owner)
        else:
            self._contended.discard(name)
        if row.owner != owner:
            return False, None
        self.db.execute("DELETE FROM locks WHERE name=?", (name,))
        held = row.expires_at > now
        handover = self._hand_on(now, name, row._replace(owner=None))[1] if row.queued else None
        return held, handover

    @in_transaction
    def renew(self, now: float, grants: Sequence[Grant]) -> dict[str, str | None]:
        """Extend all; return the owners whose record is gone, with the reason if there is one."""
        changed = self.db.executemany(
            "UPDATE locks SET expires_at=?, ttl=? WHERE name=? AND owner=? AND expires_at>?",
            ((now + ttl, ttl, name, owner, now) for name, owner, _, ttl, _, _, _ in grants),
        ).rowcount
        if changed == len(grants):
            return {}
        gone: dict[str, str | None] = {}
        for grant in grants:
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
    def revoke(self, now: float, name: str, reason: str) -> tuple[bool, Handover | None]:
        """End the hold of whoever has the lock, and keep the reason; False when nobody has it."""
        row, handover = self._current(now, name)
        if row.owner is None or not row.claimed:
            return False, handover
        self.db.execute(
            "INSERT OR REPLACE INTO revoked VALUES (?,?,?)",
            (row.owner, reason, row.expires_at + FORGET_S),
        )
        return self._leave(now, name, row.owner)

    @in_transaction
    def refresh(self, now: float, inbox: str) -> int:
        """Refresh the queue rows of an inbox; return how many there are."""
        return self.db.execute("UPDATE waiters SET seen_at=? WHERE inbox=?", (now, inbox)).rowcount

    def due_waiters(self, now: float, inbox: str) -> tuple[list[tuple[str, str, int]], float]:
        """Return the waiters of an inbox that have something to do, and when the next lease ends.

        A waiter has to try again (1) if it was handed the lock, or passed over while the lock is
        free; else (0) the lock was left by its holder and has to be handed on.
        """
        rows = self.db.read(now, DUE_WAITERS, (now, inbox, now))
        soonest = self.db.read(now, NEXT_EXPIRY, (inbox, now))[0][0]
        return [(name, owner, wakes) for name, owner, wakes in rows], soonest or NEVER

    @in_transaction
    def hand_on_if_free(self, now: float, name: str) -> Handover | None:
        """Hand the lock on if it is free or expired."""
        return self._current(now, name)[1]

    @in_transaction
    def drop_dead_client(self, now: float, handover: Handover) -> Handover | None:
        """Delete the rows of a waiter whose process is gone, and hand the lock on at once."""
        self.db.execute("DELETE FROM waiters WHERE inbox=?", (handover.inbox,))
        self.db.execute(
            "DELETE FROM locks WHERE name=? AND owner=? AND NOT claimed",
            (handover.name, handover.owner),
        )
        return self._current(now, handover.name)[1]

    def changes(self, now: float) -> object:
        """Return a value that differs once another client has changed the file."""
        return self.db.read(now, CHANGES, ())

    def changes_nowait(self) -> object | None:
        """Return the same without ever waiting; None where that cannot be."""
        return self.db.read_nowait(CHANGES)

    def queue(self, now: float, name: str) -> tuple[Waiting, ...]:
        """Return who waits for a name, in order."""
        rows = self.db.read(now, QUEUE, (name,))
        return tuple(Waiting(now - since, json.loads(meta)) for since, meta in rows)

    def holding(self, now: float, name: str) -> list[Holding]:
        """Return who holds a name: one or none."""
        return self._held(now, "name = ?", (name,))

    def holdings(self, now: float, prefix: str) -> list[Holding]:
        """Return who holds what, for all names with a prefix."""
        return self._held(now, "substr(name, 1, length(?)) = ?", (prefix, prefix))

    def _held(self, now: float, which: str, values: tuple[str, ...]) -> list[Holding]:
        rows = self.db.read(now, HELD.format(which=which), (*values, now))
        return [
            Holding(name, fence, ttl, now - since, expires_at - now, json.loads(meta))
            for name, fence, ttl, since, expires_at, meta in rows
        ]

    def journal_and_fence(self, now: float) -> tuple[str, int]:
        """Return the journal mode of the file and its highest fence."""
        ((journal_mode, fence),) = self.db.read(now, JOURNAL_AND_FENCE, ())
        return str(journal_mode), int(fence)
