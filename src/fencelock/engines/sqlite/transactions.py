"""The transactions of the embedded engine: what ``memory.py`` says, said with rows.

Each public method is one short transaction that waits for nothing but the file itself; no
transaction is ever the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...model import Grant, Request, next_fence
from .rows import CURRENT, GIVE_BACK, SOONEST, STIRRED, TAKE_FREE, Answer, Call, Row
from .wire.database import Handle

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
FORGET_S = 30.0  # a waiter that has not looked for so long is dead
NEVER = float("inf")
CONTENDED_MAX = 1000
TIDY_EVERY = 1000  # grants between two looks for rows that nobody will ask for again


class Ledger:
    """The rows of one file, as one client sees and changes them."""

    def __init__(self, handle: Handle, wall_us: Callable[[], int]) -> None:
        self._handle = handle
        self._wall_us = wall_us
        self._fence = 0
        self._grants = 0
        self._contended: set[str] = set()

    def acquire(self, request: Request, now: float, inbox: str) -> Answer:
        name, owner, ttl, meta, queue, waits, _ = request
        taken: bool | None = False
        if not queue and name not in self._contended:
            fence = next_fence(0, self._wall_us())
            row = (name, owner, fence, ttl, now, now + ttl, meta, fence, name, name)
            taken = self._handle.alone(now, TAKE_FREE, row)
            if taken:
                self._grants += 1
                if self._grants % TIDY_EVERY == 0:
                    self.tidy(now)
                return Answer(fence)
        if waits and not queue and taken is False:
            return Answer()  # it asks again at once, to stand in line
        return self._handle.transact(now, self._acquire, request, inbox)

    def _acquire(self, now: float, request: Request, inbox: str) -> Answer:
        name, owner = request.name, request.owner
        row, call = self._current(name, now)
        if row.owner is None:
            self._give(row, name, owner, request.ttl, request.meta, now, now + request.ttl, 1)
            if row.queued:
                self._handle.execute("DELETE FROM waiters WHERE name=? AND owner=?", (name, owner))
            return Answer(fence=self._fence)
        if row.owner == owner:
            self._handle.execute(
                "UPDATE locks SET expires_at=?, ttl=?, claimed=1 WHERE name=?",
                (now + request.ttl, request.ttl, name),
            )
            self._handle.execute("DELETE FROM waiters WHERE name=? AND owner=?", (name, owner))
            return Answer(fence=row.fence)
        self._expect_a_queue(name)
        position = self._stand(request, now, inbox) if request.queue else 0
        return Answer(0, row.expires_at - now, position, row.meta, call)

    def _expect_a_queue(self, name: str) -> None:
        """Remember that the short way is in vain for a name: whoever finds no queue forgets it."""
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(name)

    def _stand(self, request: Request, now: float, inbox: str) -> int:
        """Join the queue, or say that one is still there; return how many are ahead."""
        name, owner = request.name, request.owner
        changed = self._handle.execute(
            "UPDATE waiters SET seen_at=?, lapsed=0, inbox=? WHERE name=? AND owner=?",
            (now, inbox, name, owner),
        ).rowcount
        if not changed:
            self._handle.execute(
                "INSERT INTO waiters SELECT ?, COALESCE(MAX(place), 0) + 1,"
                " ?, ?, ?, ?, 0, ?, ? FROM waiters WHERE name=?",
                (name, owner, request.ttl, now, now, inbox, request.meta, name),
            )
        (position,) = self._handle.execute(
            "SELECT COUNT(*) FROM waiters WHERE name=? AND place <"
            " (SELECT place FROM waiters WHERE name=? AND owner=?)",
            (name, name, owner),
        ).fetchone()
        return int(position)

    def _current(self, name: str, now: float) -> tuple[Row, Call | None]:
        """The state of a name; an expired record is over, and the lock is handed on."""
        row = Row(*self._handle.execute(CURRENT, (name, name)).fetchone())
        if row.owner is not None and row.expires_at > now:
            return row, None
        if row.owner is not None:
            self._handle.execute("DELETE FROM locks WHERE name=?", (name,))
            if not row.claimed:
                self._handle.execute(
                    "UPDATE waiters SET lapsed=1 WHERE name=? AND owner=?", (name, row.owner)
                )
            row = row._replace(owner=None)
        if not row.queued:
            return row, None
        return self._hand_on(row, name, now)

    def _hand_on(self, row: Row, name: str, now: float) -> tuple[Row, Call | None]:
        """Give a free lock to the first waiter that answers."""
        self._handle.execute(
            "DELETE FROM waiters WHERE name=? AND seen_at<?", (name, now - FORGET_S)
        )
        head = self._handle.execute(
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
        return held, Call(name, owner, inbox)

    def _give(
        self,
        row: Row,
        name: str,
        owner: str,
        ttl: float,
        meta: str,
        now: float,
        until: float,
        claimed: int,
    ) -> None:
        self._fence = next_fence(row.mark, self._wall_us())
        self._handle.execute(
            "INSERT INTO locks VALUES (?,?,?,?,?,?,?,?)",
            (name, owner, self._fence, ttl, now, until, claimed, meta),
        )

    def tidy(self, now: float) -> None:
        """Remove what crashed processes left behind."""
        self._handle.transact(now, self._tidy)

    def _tidy(self, now: float) -> None:
        """No row stays for a name that nobody uses."""
        self._handle.execute(
            "DELETE FROM locks WHERE expires_at<? AND name NOT IN (SELECT name FROM waiters)",
            (now - FORGET_S,),
        )
        self._handle.execute("DELETE FROM waiters WHERE seen_at<?", (now - FORGET_S,))
        self._handle.execute("DELETE FROM revoked WHERE until<?", (now,))

    def leave(self, name: str, owner: str, now: float) -> tuple[bool, Call | None]:
        """Take an owner out of the lock and out of the queue; True when it held the lock."""
        if name not in self._contended and self._handle.alone(
            now, GIVE_BACK, (name, owner, now, name)
        ):
            return True, None
        return self._handle.transact(now, self._leave, name, owner)

    def _leave(self, now: float, name: str, owner: str) -> tuple[bool, Call | None]:
        row = Row(*self._handle.execute(CURRENT, (name, name)).fetchone())
        if row.queued:
            self._handle.execute("DELETE FROM waiters WHERE name=? AND owner=?", (name, owner))
        else:
            self._contended.discard(name)
        if row.owner != owner:
            return False, None
        self._handle.execute("DELETE FROM locks WHERE name=?", (name,))
        held = row.expires_at > now
        call = self._hand_on(row._replace(owner=None), name, now)[1] if row.queued else None
        return held, call

    def renew(self, grants: Sequence[Grant], now: float) -> dict[str, str | None]:
        """Extend all; return the owners whose record is gone, with the reason if there is one."""
        return self._handle.transact(now, self._renew, grants)

    def _renew(self, now: float, grants: Sequence[Grant]) -> dict[str, str | None]:
        changed = self._handle.executemany(
            "UPDATE locks SET expires_at=?, ttl=? WHERE name=? AND owner=? AND expires_at>?",
            ((now + ttl, ttl, name, owner, now) for name, owner, _, ttl, _, _ in grants),
        ).rowcount
        if changed == len(grants):
            return {}
        gone: dict[str, str | None] = {}
        for grant in grants:
            row = self._handle.execute(
                "SELECT owner FROM locks WHERE name=?", (grant.name,)
            ).fetchone()
            if row is None or row[0] != grant.owner:
                gone[grant.owner] = self._why(grant.owner)
            elif self._handle.execute(
                "SELECT 1 FROM locks WHERE name=? AND expires_at<=?", (grant.name, now)
            ).fetchone():
                gone[grant.owner] = None
        return gone

    def _why(self, owner: str) -> str | None:
        row = self._handle.execute("SELECT reason FROM revoked WHERE owner=?", (owner,)).fetchone()
        return str(row[0]) if row else None

    def revoke(self, name: str, reason: str, now: float) -> tuple[bool, Call | None]:
        return self._handle.transact(now, self._revoke, name, reason)

    def _revoke(self, now: float, name: str, reason: str) -> tuple[bool, Call | None]:
        row, call = self._current(name, now)
        if row.owner is None or not row.claimed:
            return False, call
        self._handle.execute(
            "INSERT OR REPLACE INTO revoked VALUES (?,?,?)",
            (row.owner, reason, row.expires_at + FORGET_S),
        )
        return self._leave(now, name, row.owner)

    def refresh(self, inbox: str, now: float) -> int:
        """Say that the waiters of an inbox are alive; return how many stand in a queue."""
        return self._handle.transact(now, self._refresh, inbox)

    def _refresh(self, now: float, inbox: str) -> int:
        return self._handle.execute(
            "UPDATE waiters SET seen_at=? WHERE inbox=?", (now, inbox)
        ).rowcount

    def stirred(self, inbox: str, now: float) -> tuple[list[tuple[str, str, int]], float]:
        """The waiters of an inbox that have something to do, and when the next lease ends.

        A waiter has to look (1) if it was handed the lock, or passed over while the lock is free;
        else (0) the lock was left by its holder and has to be handed on.
        """
        rows = self._handle.look(now, STIRRED, (now, inbox, now))
        soonest = self._handle.look(now, SOONEST, (inbox, now))[0][0]
        return [(name, owner, wakes) for name, owner, wakes in rows], soonest or NEVER

    def settle(self, name: str, now: float) -> Call | None:
        """Hand the lock on if it is free or expired."""
        return self._handle.transact(now, self._settle, name)

    def _settle(self, now: float, name: str) -> Call | None:
        return self._current(name, now)[1]

    def bury(self, call: Call, now: float) -> Call | None:
        """A waiter's process is gone: take its rows away and hand the lock on at once."""

        def dig(now: float) -> Call | None:
            self._handle.execute("DELETE FROM waiters WHERE inbox=?", (call.inbox,))
            self._handle.execute(
                "DELETE FROM locks WHERE name=? AND owner=? AND NOT claimed",
                (call.name, call.owner),
            )
            return self._current(call.name, now)[1]

        return self._handle.transact(now, dig)
