"""The SQL of ``mode=lease``: the protocol of ``memory.py``, in rows.

A lock that nobody contends for is taken by one statement and released by one. Everything else is
one packet with a transaction in it that begins by locking the row of the name, so that all changes
to a name or its queue are serialized. The server runs a packet to its end even if the client that
sent it freezes: no slow client ever leaves a transaction open.

*The flag.* ``queued`` says that some owner may wait. While it is up, no lock is taken or released
by the fast path, which does not read the queue. A holder and an owner that joins the queue need not
wait for each other: joining is an insert, without the row of the name. That is safe because of two
orders:

* A joining request first commits its position, and then checks whether the lock is held and the
  flag is up. Only then does it stay in the queue; otherwise it is decided with the row of the name
  locked.
* The flag is lowered only on a lock that is free already, by a transaction that has locked its row
  and reads the queue after that.

So of two that meet, one sees the other: a position that was committed before the lock became free
is seen by the transaction that would lower the flag, and a later one finds the lock free.

The text is in ``sql/lease.sql``; ``literals.py`` writes the values in it. The functions at the end
decode the replies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...model import Gone, Grant, Holding, Request, Waiting
from .._sql.sections import composed
from .literals import NOW, known, micros, text
from .wire.codec import Reply, Row

FORGET_US = 30_000_000  # a waiter that was not seen for so long is dead
UNUSED_US = 60_000_000  # how long the row of a free name stays
CLAIM_US = 500_000  # how long a waiter has to claim a lock that was handed to it
WAKEUP_LOCK = "fencelock:"


class LeaseSql:
    """All packets of ``mode=lease``, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        self._sql = composed(
            Path(__file__).parent / "sql" / "lease.sql",
            t=table,
            now=NOW,
            claim_us=CLAIM_US,
            forget=FORGET_US,
            wakeup_lock=WAKEUP_LOCK,
        )

    # Without contention

    def take(self, request: Request) -> str:
        """Take a free lock that nobody waits for. The insert id is the fence, or 0."""
        return self._sql["take"] % _wish(request)

    def take_known(self, request: Request) -> str:
        """Do as ``take`` where the row is known to exist, at a third of the server's cost."""
        return self._sql["take_known"] % {
            "n": known(request.name),
            "o": text(request.owner),
            "ttl": micros(request.ttl),
            "meta": known(request.meta),
        }

    def release(self, name: str, owner: str) -> str:
        """Release a lock that nobody waits for; affects one row, or none."""
        return self._sql["release"] % {"n": known(name), "o": text(owner)}

    # With a queue

    def queue_or_take(self, request: Request, inbox: str) -> str:
        """Settle the name, join its queue if requested, and take the lock if we are first.

        ``read_turn`` reads the replies.
        """
        packet = self._sql["queue" if request.queue else "take_turn"]
        return packet % {**_wish(request), "inbox": text(inbox)}

    def claim(self, request: Request) -> str:
        """Claim a lock that was handed over. The second reply's insert id is the fence, or 0."""
        return self._sql["claim"] % {
            "n": text(request.name),
            "o": text(request.owner),
            "ttl": micros(request.ttl),
        }

    def join_queue(self, request: Request, inbox: str, flagged: bool) -> str:
        """Join the queue of a lock that is held, for the first time.

        ``flagged`` says that the flag should be up: then the row of the name is not written.
        ``read_ahead`` reads the replies.
        """
        packet = self._sql["join_flagged" if flagged else "join_queue"]
        return packet % {**_wish(request), "inbox": text(inbox)}

    def hand_over(self, name: str, owner: str, tell: bool) -> str:
        """Hand a lock that the owner holds to the first waiter.

        The third reply affects a row if there was one; with ``tell``, ``read_next`` returns it.
        """
        packet = self._sql["hand_over_and_tell" if tell else "hand_over"]
        return packet % {"n": text(name), "o": text(owner)}

    def leave(self, name: str, owner: str) -> str:
        """Remove an owner from the lock and from the queue, and hand the lock on.

        ``read_leave`` reads the replies.
        """
        return self._sql["leave"] % {"n": text(name), "o": text(owner)}

    def decline(self, owner: str) -> str:
        """Return what was handed to a waiter that has left; what it has claimed stays as it is.

        ``read_next`` returns its new owner.
        """
        return self._sql["decline"] % {"n": "@name", "o": text(owner)}

    def lower_flag(self, name: str) -> str:
        """Lower the flag of a free lock, or hand it to an owner that has joined meanwhile.

        The row is locked first and the queue read after that: see above. ``read_next`` returns the
        new owner.
        """
        return self._sql["lower_flag"] % {"n": text(name)}

    # The listener

    def listener_setup(self, inbox: str) -> str:
        """Take the wake-up lock of an inbox, in the session that is to be woken."""
        return self._sql["listener_setup"] % {"inbox": inbox}

    def listen(self, inbox: str, nap_s: float) -> str:
        """Read which owners of an inbox have to retry, one per name; else sleep until woken."""
        return self._sql["listen"] % {"inbox": text(inbox), "nap": nap_s}

    def listen_for(self, owner: str, nap_s: float) -> str:
        """Do as ``listen`` for a client with one waiter, at a third of the cost or less."""
        return self._sql["listen_for"] % {"o": text(owner), "nap": nap_s}

    def heartbeat(self, inbox: str, owners: Sequence[str]) -> str:
        """Mark the waiters of an inbox as alive; affects as many rows.

        This puts those that were passed over back in the queue. A single waiter is named by its
        owner: ``listen_for`` does not notice rows of owners that have left, so this must not keep
        them.
        """
        if len(owners) == 1:
            return self._sql["heartbeat_of"] % {"o": text(owners[0])}
        return self._sql["heartbeat"] % {"inbox": text(inbox)}

    # Renewal, revocation, inspection

    def renew(self, grants: Sequence[Grant]) -> str:
        """Extend all in one packet; the last reply has the owners that still hold."""
        ttls = " ".join(f"WHEN {text(g.owner)} THEN {micros(g.ttl)}" for g in grants)
        ttl = f"CASE l.owner {ttls} END"
        if len({grant.ttl for grant in grants}) == 1:
            ttl = str(micros(grants[0].ttl))
        return self._sql["renew"] % {
            "ttl": ttl,
            "names": ",".join(text(g.name) for g in grants),
            "pairs": ",".join(f"({text(g.name)},{text(g.owner)})" for g in grants),
            "owners": ",".join(text(g.owner) for g in grants),
        }

    def end_in(self, grant: Grant, seconds: float) -> str:
        """Have a grant end in so many seconds; affects a row if it still holds."""
        return self._sql["end_in"] % {
            "n": text(grant.name),
            "o": text(grant.owner),
            "rest": micros(seconds),
        }

    def revoke(self, name: str, reason: str) -> str:
        """Take the lock from its holder and store the reason; see ``read_revoke``."""
        return self._sql["revoke"] % {"n": text(name), "reason": text(reason)}

    @property
    def verification(self) -> str:
        """A query for the caller's own transaction: the row of a hold, locked against a taker.

        Renewals do not change that row.
        """
        return self._sql["verification"]

    def state(self, name: str) -> str:
        """Read who holds a name, and who waits for it."""
        return self._sql["state"] % {"n": text(name)}

    def scan(self, prefix: str) -> str:
        """Read who holds names that begin with a prefix."""
        return self._sql["scan"] % {"size": len(prefix.encode()), "n": text(prefix)}


def _wish(request: Request) -> dict[str, object]:
    """Return the values of a request, as a packet takes them."""
    return {
        "n": text(request.name),
        "o": text(request.owner),
        "ttl": micros(request.ttl),
        "meta": text(request.meta),
    }


class Turn(NamedTuple):
    """The result of ``queue_or_take``."""

    ours: bool
    fence: int
    left_s: float
    meta: str
    ahead: int
    next_owner: bytes | None
    """The owner to whom the lock was handed, if any."""


def read_turn(replies: list[Reply]) -> Turn:
    ours, fence, left, meta, ahead, next_owner = replies[-2].rows[0]
    left_s = max(number(left) / 1e6, 0.001)
    return Turn(ours == b"1", number(fence), left_s, words(meta), number(ahead), next_owner)


def read_ahead(replies: list[Reply]) -> int | None:
    """Return how many wait before an owner that has joined; None if it has not.

    One of the replies has our position as its insert id, and the last has how many are before us.
    """
    rows = replies[-1].rows
    if rows and any(reply.insert_id for reply in replies):
        return number(rows[0][0])
    return None


def read_next(replies: list[Reply]) -> bytes | None:
    """Return the owner to whom a lock was handed, if any."""
    return replies[-2].rows[0][0]


class Left(NamedTuple):
    """The result of ``leave``."""

    held: bool
    next_owner: bytes | None
    free_with_flag: bool


def read_leave(replies: list[Reply]) -> Left:
    next_owner, flagged = replies[-2].rows[0]
    return Left(replies[1].rows == [(b"1",)], next_owner, flagged == b"1")


def read_revoke(replies: list[Reply]) -> tuple[bool, bytes | None]:
    """Return whether the lock was held, and the owner to whom it was handed."""
    held, next_owner = replies[-2].rows[0]
    return held == b"1", next_owner


def read_renewals(replies: list[Reply], grants: Sequence[Grant]) -> list[Grant | Gone]:
    """Return, for each grant, itself if it still holds, or why it does not."""
    reasons = {words(owner): reason for owner, reason in replies[-1].rows}
    return [
        grant
        if grant.owner in reasons and reasons[grant.owner] is None
        else _gone(reasons.get(grant.owner))
        for grant in grants
    ]


def _gone(reason: bytes | None) -> Gone:
    if reason is not None:
        return Gone("revoked", reason.decode())
    return Gone("expired", "its row is gone from the table, or has run out")


def read_holding(row: Row) -> Holding:
    name, fence, ttl, age, left, meta = row
    return Holding(
        words(name),
        number(fence),
        number(ttl) / 1e6,
        max(0.0, number(age) / 1e6),
        number(left) / 1e6,
        json.loads(words(meta)),
    )


def read_waiting(row: Row) -> Waiting:
    age, meta = row
    return Waiting(number(age) / 1e6, json.loads(words(meta)))


def number(value: bytes | None) -> int:
    return int(value or 0)


def words(value: bytes | None) -> str:
    return (value or b"").decode()
