"""The SQL of semaphores and read/write locks: what ``memory.py`` says, said with rows.

Units that are free, of a name that nobody waits for, are taken by one packet with two statements
and given back by another. Everything else is one packet, too. Each is a transaction that locks the
row of the name, so that all who change a name, its shares or its queue come one after the other;
the server runs it to its end even if the client that sent it freezes.

* A statement sees what was committed before it began (READ COMMITTED), and so, once the row of the
  name is locked, all that others did to the name.
* Two steps do without that row: a renewal, which locks the row of its share and writes elsewhere,
  and a heartbeat. So a transaction of a user that has made sure of a share (``verification``) has
  its row locked, and renewals go on.
* Units are handed over without a slot and a fence. Whoever claims them draws both from the row of
  the name: so the fences of a slot grow, whoever was handed its units first.

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

DEAF_US = 1_000_000  # how long a client that waits may take to have its listener
PROTECTED_US = 50_000  # how often to look at a share that is over and protected
NEVER_US = 1 << 62
GONE_MAX = 31  # what one packet takes away: as many owners as GROUP_CONCAT has room for
GONE_BYTES = 1000  # of as many, or nearly
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
            unused=lease_sql.UNUSED_US,
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

        The server refuses it (``RowRefused``) when it is not so simple.
        """
        wish = self._wish(request, share)
        given = self._sql["given_slot"] % wish if share.kind == "semaphore" else "NULL"
        return self._sql["take"] % {**wish, "given": given}

    def give_back(self, key: str, owner: str, share: Share) -> str:
        """Give units back that nobody waits for.

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
        """Settle the name, join its queue, and take what is free if it is our turn.

        Without an inbox the queue is left again. ``read_turn`` reads the replies.
        """
        return self._sql["acquire"] % {**self._wish(request, share), "inbox": text(inbox)}

    def leave(self, key: str, owner: str) -> str:
        """Take an owner out of the shares and of the queue, and hand on; see ``read_left``."""
        return self._sql["leave"] % {"n": text(key), "o": text(owner), "most": 1}

    def decline(self, owner: str) -> str:
        """Give back what was handed to a waiter that has left; what it has claimed stays."""
        words = {"n": "@name", "o": text(owner), "most": 0}
        return f"{self._sql['name_of'] % words};{self._sql['leave'] % words}"

    def revoke(self, key: str, reason: str) -> str:
        """Take a name from all who hold it and remember why; see ``read_left``."""
        return self._sql["revoke"] % {"n": text(key), "reason": text(reason)}

    def wake(self, inbox: str) -> str:
        """End the sleep of a client."""
        return self._sql["wake"] % {"inbox": text(inbox)}

    def listen(self, inbox: str, nap_s: float) -> str:
        """Say who of an inbox has something to do; else sleep until woken."""
        return self._sql["listen"] % {"whose": f"w.inbox={text(inbox)}", "nap": nap_s}

    def listen_for(self, owner: str, nap_s: float) -> str:
        """Do as ``listen`` for a client with one waiter."""
        return self._sql["listen"] % {"whose": f"w.owner={text(owner)}", "nap": nap_s}

    def heartbeat(self, inbox: str, owners: Sequence[str]) -> str:
        """Say that the waiters of an inbox are alive; it affects as many rows."""
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
        """For a transaction of the caller's: the row of a share, locked against whoever ends it."""
        return self._sql["verification"]

    def state(self, name: str) -> str:
        """Read who holds a name in either way, and who waits for it."""
        return self._sql["state"] % {"names": _of_all_kinds(name)}

    def scan(self, prefix: str) -> str:
        """Read who holds names that begin with a prefix."""
        size = len(prefix.encode()) + 1
        return self._sql["scan"] % {"size": size, "names": _of_all_kinds(prefix)}

    def clean_up(self) -> str:
        """Remove rows that nobody uses, as ``LeaseSql.clean_up`` does.

        The last reply has names, with their letters, that are to be settled.
        """
        return self._sql["clean_up"]


def key_of(name: str, share: Share | None) -> str:
    """A name as the tables have it."""
    assert share is not None
    return LETTERS[share.kind] + name


def _of_all_kinds(name: str) -> str:
    return ",".join(text(letter + name) for letter in LETTERS.values())


def read_take(replies: list[Reply], share: Share) -> tuple[int, Share]:
    """The fence and the share that were taken."""
    _, named, shared, _ = replies
    return named.insert_id, share._replace(slot=shared.insert_id - 1 if shared.insert_id else None)


class ShareTurn(NamedTuple):
    """What ``acquire`` found."""

    fence: int
    """0 when nothing was granted."""
    share: Share
    limit: int
    """Of those who use the name."""
    queued: bool
    left_s: float
    ahead: int
    meta: str
    is_more: bool
    """Whether more than one packet takes away was over."""
    handed: list[Row]
    """The owners to whom something was handed, with their inboxes."""


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
    """What ``leave`` or ``revoke`` found."""

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
    """The limit of a semaphore, of what ``state`` has found; None where it is not in use."""
    return next((number(row[-1]) for row in rows if row[-3] == b"s"), None)


def _role(letter: bytes | None, is_all: bytes | None) -> Role:
    if letter == b"s":
        return "semaphore"
    return "write" if is_all == b"1" else "read"
