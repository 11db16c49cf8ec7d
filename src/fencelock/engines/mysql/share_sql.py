"""The SQL of semaphores and read/write locks: the protocol of ``memory.py``, in rows.

Free units of a name that nobody waits for are taken by one packet with two statements and released
by another. Everything else is one packet, too. Each is a transaction that locks the row of the
name, so that all changes to a name, its shares or its queue are serialized; the server runs it to
its end even if the client that sent it freezes.

* A statement sees what was committed before it began (READ COMMITTED), and so, once the row of the
  name is locked, all that others did to the name.
* Two steps do not lock that row: a renewal, which locks the row of its share and writes to another
  table, and a heartbeat. So a transaction of a user that has verified a share (``verification``)
  has its row locked, and renewals go on.
* Units are handed over without a slot and a fence. The claim draws both from the row of the name:
  so the fences of a slot grow, in whatever order units are handed over.

The text is in ``sql/shares.sql``. The functions at the end decode what comes back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...model import Grant, Holding, Request, Role, Share, Waiting
from .._sql.sections import composed
from . import lease_sql
from .lease_sql import CLAIM_US, FORGET_US, WAKEUP_LOCK, LeaseSql, number, words
from .literals import NOW, known, micros, text
from .wire.codec import Reply, Row

DEAF_US = 1_000_000  # how long a client that waits may take to connect its listener
PROTECTED_US = 50_000  # how often to check a share that has ended but is locked by a transaction
NEVER_US = 1 << 62
GONE_MAX = 31  # how many ended shares one packet removes: the owners that GROUP_CONCAT has room for
GONE_BYTES = 1000  # the length of a list of about as many
LETTERS = {"semaphore": "s", "rwlock": "r"}


class ShareSql:
    """All packets of shares, over the tables of one prefix."""

    def __init__(self, table: str, locks: LeaseSql) -> None:
        self.listener_setup = locks.listener_setup
        self._sql = composed(
            Path(__file__).parent / "sql" / "shares.sql",
            t=table,
            now=NOW,
            claim_us=CLAIM_US,
            deaf_us=DEAF_US,
            forget=FORGET_US,
            full=GONE_BYTES,
            never=NEVER_US,
            numbers=" UNION ALL ".join(f"SELECT {i} AS i" for i in range(1, GONE_MAX + 1)),
            protected_us=PROTECTED_US,
            wakeup_lock=WAKEUP_LOCK,
        )

    def _wish(self, request: Request, share: Share) -> dict[str, object]:
        return {
            "n": known(key_of(request.name, share)),
            "o": text(request.owner),
            "units": share.units,
            "limit": share.limit,
            "slot": self._sql["lowest_slot"] if share.kind == "semaphore" else "NULL",
            "ttl": micros(request.ttl),
            "meta": known(request.meta),
        }

    def take(self, request: Request, share: Share) -> str:
        """Take free units of a name that nobody waits for; ``read_take`` reads the replies.

        The server refuses it (``RowRefused``) in all other cases.
        """
        wish = self._wish(request, share)
        given = self._sql["given_slot"] % wish if share.kind == "semaphore" else "NULL"
        return self._sql["take"] % {**wish, "given": given}

    def give_back(self, key: str, owner: str, share: Share) -> str:
        """Release units that nobody waits for.

        The second reply affects a row if they were held, and the third if nobody waits.
        """
        slot = "NULL" if share.slot is None else share.slot
        return self._sql["give_back"] % {
            "n": known(key),
            "o": text(owner),
            "units": share.units,
            "slot": slot,
        }

    def acquire(self, request: Request, share: Share, inbox: str) -> str:
        """Settle the name, join its queue, and take free units if we are first.

        Without an inbox the queue is left again. ``read_turn`` reads the replies.
        """
        return self._sql["acquire"] % {**self._wish(request, share), "inbox": text(inbox)}

    def leave(self, key: str, owner: str) -> str:
        """Remove an owner from the shares and the queue, and hand units on; see ``read_left``."""
        return self._sql["leave"] % {"n": text(key), "o": text(owner), "most": 1}

    def decline(self, owner: str) -> str:
        """Return what was handed to a waiter that has left; what it has claimed stays."""
        words = {"n": "@name", "o": text(owner), "most": 0}
        return f"{self._sql['name_of'] % words};{self._sql['leave'] % words}"

    def revoke(self, key: str, reason: str) -> str:
        """Take a name from all its holders and store the reason; see ``read_left``."""
        return self._sql["revoke"] % {"n": text(key), "reason": text(reason)}

    def wake(self, inbox: str) -> str:
        """End the sleep of a client's listener."""
        return self._sql["wake"] % {"inbox": text(inbox)}

    def listen(self, inbox: str, nap_s: float) -> str:
        """Read which owners of an inbox have to retry; else sleep until woken."""
        return self._sql["listen"] % {"whose": f"w.inbox={text(inbox)}", "nap": nap_s}

    def listen_for(self, owner: str, nap_s: float) -> str:
        """Do as ``listen`` for a client with one waiter."""
        return self._sql["listen"] % {"whose": f"w.owner={text(owner)}", "nap": nap_s}

    def heartbeat(self, inbox: str, owners: Sequence[str]) -> str:
        """Mark the waiters of an inbox as alive; affects as many rows."""
        whose = f"w.inbox={text(inbox)}"
        if len(owners) == 1:
            whose = f"w.owner={text(owners[0])}"
        return self._sql["heartbeat"] % {"whose": whose}

    def renew(self, grants: Sequence[Grant]) -> str:
        """Extend all in one packet; ``lease_sql.read_renewals`` reads the replies."""
        keys = [text(key_of(grant.name, grant.share)) for grant in grants]
        owners = [text(grant.owner) for grant in grants]
        ttls = [micros(grant.ttl) for grant in grants]
        ttl = str(ttls[0])
        if len({*ttls}) > 1:
            cases = (f"WHEN {o} THEN {t}" for o, t in zip(owners, ttls, strict=True))
            ttl = f"CASE s.owner {' '.join(cases)} END"
        return self._sql["renew"] % {
            "ttl": ttl,
            "names": ",".join(keys),
            "pairs": ",".join(f"({k},{o})" for k, o in zip(keys, owners, strict=True)),
            "owners": ",".join(owners),
        }

    def end_in(self, key: str, owner: str, seconds: float) -> str:
        """Have a share end in so many seconds; the third reply affects a row if it still holds."""
        return self._sql["end_in"] % {"n": text(key), "o": text(owner), "rest": micros(seconds)}

    @property
    def verification(self) -> str:
        """A query for the caller's own transaction: the row of a share, locked against its end."""
        return self._sql["verification"]

    def state(self, name: str) -> str:
        """Read who holds shares of a name, of either kind, and who waits for them."""
        return self._sql["state"] % {"names": _of_all_kinds(name)}

    def scan(self, prefix: str) -> str:
        """Read who holds names that begin with a prefix."""
        size = len(prefix.encode()) + 1
        return self._sql["scan"] % {"size": size, "names": _of_all_kinds(prefix)}


def key_of(name: str, share: Share | None) -> str:
    """Return the key of a name in the tables: the letter of its kind, then the name."""
    assert share is not None
    return LETTERS[share.kind] + name


def _of_all_kinds(name: str) -> str:
    return ",".join(text(letter + name) for letter in LETTERS.values())


def read_take(replies: list[Reply], share: Share) -> tuple[int, Share]:
    """Return the fence and the share that were taken."""
    _, named, shared, _ = replies
    return named.insert_id, share._replace(slot=shared.insert_id - 1 if shared.insert_id else None)


class ShareTurn(NamedTuple):
    """The result of ``acquire``."""

    fence: int
    """0 when nothing was granted."""
    share: Share
    limit: int
    """The limit of those who use the name."""
    queued: bool
    left_s: float
    ahead: int
    meta: str
    is_more: bool
    """Whether more shares have ended than one packet removes."""
    handed: list[Row]
    """The owners to whom units were handed, with their inboxes."""


def read_turn(replies: list[Reply], share: Share) -> ShareTurn:
    fence, slot, units, limit, queued, left, ahead, meta, more = replies[-2].rows[0]
    got = share._replace(units=number(units), slot=None if slot is None else int(slot))
    return ShareTurn(
        number(fence),
        got,
        number(limit),
        queued == b"1",
        number(left) / 1e6,
        number(ahead),
        words(meta),
        more == b"1",
        replies[-3].rows,
    )


class LeftShare(NamedTuple):
    """The result of ``leave`` or ``revoke``."""

    held: bool
    queued: bool
    handed: list[Row]


def read_left(replies: list[Reply]) -> LeftShare:
    held, queued = replies[-2].rows[0]
    return LeftShare(number(held) > 0, queued == b"1", replies[-3].rows)


def read_holding(row: Row) -> Holding:
    *common, slot, letter, is_all, limit = row
    holding = lease_sql.read_holding(tuple(common))._replace(role=_role(letter, is_all))
    if slot is None:
        return holding
    return holding._replace(slot=number(slot), limit=number(limit))


def read_waiting(row: Row) -> Waiting:
    age, meta, letter, is_all, _ = row
    return Waiting(number(age) / 1e6, json.loads(words(meta)), _role(letter, is_all))


def read_limit(rows: list[Row]) -> int | None:
    """Return a semaphore's limit from the rows of ``state``; None if it is not in use."""
    return next((number(row[-1]) for row in rows if row[-3] == b"s"), None)


def _role(letter: bytes | None, is_all: bytes | None) -> Role:
    if letter == b"s":
        return "semaphore"
    return "write" if is_all == b"1" else "read"
