"""The SQL of ``mode=lease``: what ``memory.py`` says, said with rows.

A lock that nobody contends for is taken by one statement and given back by one. Everything else is
one packet with a transaction in it that begins by locking the row of the name, so that all who
change a name or its queue come one after the other. The server runs a packet to its end even if the
client that sent it freezes: no transaction is ever left open by a client that thinks.

*The flag.* ``queued`` says that somebody may wait. While it is up, no lock is taken or given back
by the short way, which does not look at the queue. Who holds a lock and who has just joined its
queue need not wait for each other: joining is an insert, without the row of the name. That is safe
because of two orders:

* Whoever joins first commits its place, and then looks whether the lock is held and the flag is up.
  Only then does it stay in the queue; otherwise it takes its turn behind the row of the name.
* The flag is lowered only on a lock that is free already, by a transaction that has its row and
  looks at the queue after that.

So of two who meet, one sees the other: a place that was committed before the lock became free is
seen by whoever would lower the flag, and a later one finds the lock free.

``literals.py`` has how values stand in the text. The functions at the end decode what comes back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from ...model import Gone, Grant, Holding, Request, Waiting
from .literals import NOW, known, micros, text
from .wire.codec import Reply, Row

FORGET_US = 30_000_000  # a waiter that has not looked for so long is dead
UNUSED_US = 60_000_000  # how long the row of a free name stays
CLAIM_US = 500_000  # how long a lock that was handed over waits for its new holder
WAKEUP_LOCK = "fencelock:"


class LeaseSql:
    """All packets of ``mode=lease``, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        self._locks, self._renewals = f"{table}_locks", f"{table}_renewals"
        self._waiters, self._revoked = f"{table}_waiters", f"{table}_revoked"
        self._fence = f"{table}_fence"
        self._end = "GREATEST(l.expires_at,COALESCE(r.expires_at,0))"
        self._stirs = (  # what a waiter has to look at
            "l.name IS NULL OR l.owner='' OR (l.owner=w.owner AND l.claimed=0)"
            f" OR {self._end}<={NOW}"
        )
        self._held = f"{self._locks} l LEFT JOIN {self._renewals} r ON r.owner=l.owner"
        locks = self._locks
        columns = "(name,owner,fence,ttl,since,expires_at,claimed,queued,meta)"
        free, ours = "owner='' AND queued=0", "owner=VALUES(owner) AND expires_at>VALUES(since)"
        new_fence = f"GREATEST({NOW},(SELECT fence FROM {self._fence})+1)"
        # Assignments are made from left to right and see each other: the owner comes last.
        self._take = (
            f"INSERT INTO {locks} {columns} VALUES(%s,%s,LAST_INSERT_ID({new_fence}),"
            f"%d,{NOW},{NOW}+%d,1,0,%s) ON DUPLICATE KEY UPDATE "
            f"fence=IF({free},LAST_INSERT_ID(GREATEST(fence+1,VALUES(since))),"
            f"IF({ours},LAST_INSERT_ID(fence),fence+LAST_INSERT_ID(0))),"
            f"ttl=IF({free},VALUES(ttl),ttl),since=IF({free},VALUES(since),since),"
            f"meta=IF({free},VALUES(meta),meta),claimed=IF({free} OR {ours},1,claimed),"
            f"expires_at=IF({free} OR {ours},VALUES(expires_at),expires_at),"
            f"owner=IF({free},VALUES(owner),owner)"
        )
        self._take_known = (
            f"UPDATE {locks} SET since={NOW},fence=LAST_INSERT_ID(GREATEST(fence+1,since)),"
            "expires_at=since+%d,owner=%s,ttl=%d,claimed=1,meta=%s"
            " WHERE name=%s AND owner='' AND queued=0"
        )
        self._release = (
            f"UPDATE {locks} SET owner='',expires_at={NOW}"
            f" WHERE name=%s AND owner=%s AND queued=0 AND claimed=1 AND expires_at>{NOW}"
        )
        self._compose_for_the_queue(columns, new_fence)

    def _compose_for_the_queue(self, columns: str, new_fence: str) -> None:
        locks, waiters = self._locks, self._waiters
        self._row = (  # the row is there, and locked
            f"INSERT INTO {locks} {columns} VALUES(%s,'',{new_fence},0,0,{NOW},1,0,'')"
            " ON DUPLICATE KEY UPDATE name=VALUES(name)"
        )
        self._given = (
            f"l.fence=GREATEST(l.fence+1,{NOW}),l.owner=w.owner,l.ttl=w.ttl,l.since={NOW},"
            f"l.claimed=0,l.meta=w.meta,l.expires_at={NOW}+LEAST({CLAIM_US},w.ttl)"
        )
        self._hand_on = (
            f"DELETE FROM {waiters} WHERE name=%s AND seen_at<{NOW}-{FORGET_US};"
            f"UPDATE {locks} l JOIN (SELECT owner,ttl,meta FROM {waiters} WHERE name=%s"
            f" AND lapsed=0 ORDER BY place LIMIT 1) w SET {self._given}"
            " WHERE l.name=%s AND l.owner='';"
        )
        # What is over is taken away. A hand-over that nobody claimed tells that its client does not
        # listen: all its waiters are passed over at once, and those whose client has no session.
        self._settle = (
            f"UPDATE {locks} l JOIN {waiters} w ON w.name=l.name"
            f" LEFT JOIN {waiters} h ON h.owner=l.owner SET w.lapsed=1"
            f" WHERE l.name=%s AND l.claimed=0 AND l.expires_at<={NOW}"
            f" AND (w.inbox<=>h.inbox OR {wakeup_lock('w.inbox')} IS NULL);"
            f"UPDATE {self._held} SET l.owner='',l.claimed=1"
            f" WHERE l.name=%s AND l.owner<>'' AND {self._end}<={NOW};"
        )
        self._waits = f"EXISTS (SELECT 1 FROM {waiters} WHERE name=%s)"
        self._flag = f"UPDATE {locks} SET queued=1 WHERE name=%s AND queued=0 AND {self._waits};"
        self._whom = (
            "SET @inbox=NULL,@owner=NULL;"
            f"SELECT w.inbox,w.owner INTO @inbox,@owner FROM {locks} l JOIN {waiters} w"
            " ON w.owner=l.owner WHERE l.name=%s AND l.claimed=0;"
        )
        self._claim = (
            f"START TRANSACTION;UPDATE {locks} SET claimed=1,expires_at={NOW}+%d,"
            "fence=LAST_INSERT_ID(fence)"
            f" WHERE name=%s AND owner=%s AND claimed=0 AND expires_at>{NOW};"
            f"DELETE FROM {waiters} WHERE owner=%s AND ROW_COUNT()=1;COMMIT"
        )
        self._next = (  # always a row for a name that is there: what is older is not taken for it
            "SELECT w.owner,w.inbox,w.ttl,w.meta INTO @owner,@inbox,@ttl,@meta"
            f" FROM {locks} l LEFT JOIN {waiters} w ON w.lapsed=0 AND w.owner=("
            f"SELECT f.owner FROM {waiters} f FORCE INDEX (by_name) WHERE f.name=%s"
            f" AND f.owner<>%s AND f.lapsed=0 AND f.seen_at>={NOW}-{FORGET_US}"
            " ORDER BY f.place LIMIT 1) WHERE l.name=%s FOR UPDATE;"
        )
        self._give = (
            f"UPDATE {locks} SET fence=GREATEST(fence+1,{NOW}),owner=@owner,ttl=@ttl,since={NOW},"
            f"claimed=0,meta=@meta,expires_at={NOW}+LEAST({CLAIM_US},@ttl)"
            f" WHERE name=%s AND owner=%s AND claimed=1 AND expires_at>{NOW}"
            " AND @owner IS NOT NULL;"
        )

    # Without contention

    def take(self, request: Request) -> str:
        """Take a free lock that nobody waits for. The insert id is the fence, or 0."""
        ttl = micros(request.ttl)
        return self._take % (text(request.name), text(request.owner), ttl, ttl, text(request.meta))

    def take_known(self, request: Request) -> str:
        """Take one whose row is known to be there, at a third of the cost for the server."""
        ttl, owner = micros(request.ttl), text(request.owner)
        return self._take_known % (ttl, owner, ttl, known(request.meta), known(request.name))

    def release(self, name: str, owner: str) -> str:
        """Release a lock that nobody waits for; it affects one row, or none."""
        return self._release % (known(name), text(owner))

    # With a queue

    def queue_or_take(self, request: Request, inbox: str) -> str:
        """Settle the name, join its queue if so requested, and take the lock if it is our turn.

        ``read_turn`` reads the replies.
        """
        n, o, ttl = text(request.name), text(request.owner), micros(request.ttl)
        meta = text(request.meta)
        if request.queue:
            join = (
                f"INSERT INTO {self._waiters} (owner,name,inbox,ttl,since,seen_at,lapsed,meta)"
                f" SELECT {o},{n},{text(inbox)},{ttl},{NOW},{NOW},0,{meta} FROM {self._locks}"
                f" WHERE name={n} AND owner<>{o} ON DUPLICATE KEY UPDATE"
                " seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox);"
            )
            take = ""
        else:
            join = ""
            take = (
                f"UPDATE {self._locks} SET fence=GREATEST(fence+1,{NOW}),owner={o},ttl={ttl},"
                f"since={NOW},claimed=0,expires_at={NOW}+{ttl},meta={meta}"
                f" WHERE name={n} AND owner='';"
            )
        return (
            f"START TRANSACTION;{self._row % n};{self._settle % (n, n)}{join}"
            f"{self._hand_on % (n, n, n)}{take}"
            f"UPDATE {self._locks} SET claimed=1,expires_at={NOW}+{ttl}"
            f" WHERE name={n} AND owner={o};"
            f"DELETE w FROM {self._waiters} w JOIN {self._locks} l ON l.owner=w.owner"
            f" WHERE w.owner={o} AND l.name={n};"
            f"{self._flag % (n, n)}{self._whom % n}"
            f"SELECT l.owner={o},l.fence,{self._end}-{NOW},l.meta,"
            f"(SELECT COUNT(*) FROM {self._waiters} a WHERE a.name={n} AND a.owner<>l.owner"
            f" AND a.place<COALESCE((SELECT b.place FROM {self._waiters} b WHERE b.owner={o}),"
            f"1<<62)),@owner FROM {self._held} WHERE l.name={n};"
            f"COMMIT;{wake_sql('@inbox')}"
        )

    def claim(self, request: Request) -> str:
        """Take what was handed over. The insert id of the second reply is the fence, or 0."""
        n, o = text(request.name), text(request.owner)
        return self._claim % (micros(request.ttl), n, o, o)

    def join_queue(self, request: Request, inbox: str, flagged: bool) -> str:
        """Join the queue of a lock that is held, for the first time.

        ``flagged`` is that the flag should be up: then the row of the name is not touched.
        ``read_ahead`` reads the replies.
        """
        n, o = text(request.name), text(request.owner)
        held = f"name={n} AND owner<>'' AND owner<>{o} AND expires_at>{NOW}"
        join = (
            f"INSERT INTO {self._waiters} (owner,name,inbox,ttl,since,seen_at,lapsed,meta)"
            f" SELECT {o},{n},{text(inbox)},{micros(request.ttl)},{NOW},{NOW},0,"
            f"{text(request.meta)} FROM {self._locks} WHERE {held} AND queued>0"
            " ON DUPLICATE KEY UPDATE seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox),"
            "place=LAST_INSERT_ID(place);"  # it joins again, through another client perhaps
        )
        if not flagged:
            raise_flag = f"UPDATE {self._locks} SET queued=1 WHERE {held};"
            join = f"START TRANSACTION;{raise_flag}{join}COMMIT;"
        return (
            f"{join}SELECT (SELECT COUNT(*) FROM {self._waiters} WHERE name={n}"
            f" AND place<LAST_INSERT_ID()) FROM {self._locks}"
            f" WHERE name={n} AND owner<>'' AND queued>0"
        )

    def hand_over(self, name: str, owner: str, tell: bool) -> str:
        """Hand a lock that is held to the first who waits.

        The third reply affects a row if there was one; ``read_next`` says who, if ``tell``.
        """
        n, o = text(name), text(owner)
        return (
            f"START TRANSACTION;{self._next % (n, o, n)}{self._give % (n, o)}"
            f"{'SELECT @owner;' if tell else ''}COMMIT;{wake_sql('@inbox')}"
        )

    def leave(self, name: str, owner: str) -> str:
        """Take an owner out of the lock and out of the queue, and hand the lock on.

        ``read_leave`` reads the replies.
        """
        n, o = text(name), text(owner)
        return (
            f"START TRANSACTION;SELECT l.owner={o} AND {self._end}>{NOW} FROM {self._held}"
            f" WHERE l.name={n} FOR UPDATE;"
            f"DELETE FROM {self._waiters} WHERE owner={o};"
            f"DELETE FROM {self._renewals} WHERE owner={o};"
            f"UPDATE {self._locks} SET owner='',claimed=1,expires_at={NOW}"
            f" WHERE name={n} AND owner={o};"
            f"{self._settle % (n, n)}{self._hand_on % (n, n, n)}{self._whom % n}"
            f"SELECT @owner,(SELECT owner='' AND queued>0 FROM {self._locks} WHERE name={n});"
            f"COMMIT;{wake_sql('@inbox')}"
        )

    def decline(self, owner: str) -> str:
        """Give back what was handed to a waiter that has left; what it has claimed stays as it is.

        ``read_next`` says who has it now.
        """
        n, o = "@name", text(owner)
        return (
            f"START TRANSACTION;SET @name=NULL;SELECT name INTO @name FROM {self._waiters}"
            f" WHERE owner={o};SELECT 1 FROM {self._locks} WHERE name={n} FOR UPDATE;"
            f"DELETE FROM {self._waiters} WHERE owner={o};"
            f"UPDATE {self._locks} SET owner='',claimed=1,expires_at={NOW}"
            f" WHERE name={n} AND owner={o} AND claimed=0;"
            f"{self._settle % (n, n)}{self._hand_on % (n, n, n)}{self._whom % n}"
            f"SELECT @owner;COMMIT;{wake_sql('@inbox')}"
        )

    def lower_flag(self, name: str) -> str:
        """Lower the flag of a lock that is free, or hand it to who has joined meanwhile.

        The row comes first and then the queue: see above. ``read_next`` says to whom.
        """
        n = text(name)
        return (
            f"START TRANSACTION;SELECT 1 FROM {self._locks} WHERE name={n} FOR UPDATE;"
            f"{self._hand_on % (n, n, n)}UPDATE {self._locks} SET queued={self._waits % n}"
            f" WHERE name={n} AND owner='' AND queued>0;"
            f"{self._whom % n}SELECT @owner;COMMIT;{wake_sql('@inbox')}"
        )

    # The listener

    def listener_setup(self, inbox: str) -> str:
        """Take the wake-up lock of an inbox, in the session that is to be woken."""
        return f"SET SESSION group_concat_max_len=1000000;DO GET_LOCK('{WAKEUP_LOCK}{inbox}',0)"

    def listen(self, inbox: str, nap_s: float) -> str:
        """Say who of an inbox has something to do, one for each name; else sleep until woken.

        Looking and sleeping are one statement: a wake-up that comes after we have looked ends it.
        """
        return (
            f"SELECT c.calls,IF(c.calls IS NULL,SLEEP(LEAST({nap_s},GREATEST(0.002,"
            f"COALESCE((c.soonest-{NOW})/1000000,{nap_s})))),0) FROM (SELECT GROUP_CONCAT(n.owner)"
            " AS calls,MIN(n.soonest) AS soonest FROM (SELECT SUBSTRING_INDEX(GROUP_CONCAT("
            f"IF({self._stirs},w.owner,NULL) ORDER BY COALESCE(l.owner,'')<>w.owner,w.place),',',1)"
            f" AS owner,MIN({self._end}) AS soonest FROM {self._waiters} w"
            f" LEFT JOIN {self._locks} l ON l.name=w.name LEFT JOIN {self._renewals} r"
            f" ON r.owner=l.owner WHERE w.inbox={text(inbox)} GROUP BY w.name) n) c"
        )

    def listen_for(self, owner: str, nap_s: float) -> str:
        """Do as ``listen`` for a client with one waiter, at a third of the cost or less."""
        stirs = f"w.owner IS NOT NULL AND ({self._stirs})"
        return (
            f"SELECT IF({stirs},w.owner,NULL),IF({stirs},0,SLEEP(LEAST({nap_s},GREATEST(0.002,"
            f"COALESCE(({self._end}-{NOW})/1000000,{nap_s}))))) FROM (SELECT 1) one"
            f" LEFT JOIN {self._waiters} w ON w.owner={text(owner)}"
            f" LEFT JOIN {self._locks} l ON l.name=w.name"
            f" LEFT JOIN {self._renewals} r ON r.owner=l.owner"
        )

    def heartbeat(self, inbox: str, owners: Sequence[str]) -> str:
        """Say that the waiters of an inbox are alive; it affects as many rows.

        They are in the queue again if they were passed over meanwhile. A single one is named:
        ``listen_for`` does not notice strays, and so they are not kept.
        """
        whose = f"owner={text(owners[0])}" if len(owners) == 1 else f"inbox={text(inbox)}"
        return f"UPDATE {self._waiters} SET seen_at={NOW},lapsed=0 WHERE {whose}"

    # Renewal, revocation, inspection, clean-up

    def renew(self, grants: Sequence[Grant]) -> str:
        """Extend all in one packet; the last reply has the owners that still hold."""
        ttls = " ".join(f"WHEN {text(g.owner)} THEN {micros(g.ttl)}" for g in grants)
        ttl = f"CASE l.owner {ttls} END"
        if len({grant.ttl for grant in grants}) == 1:
            ttl = str(micros(grants[0].ttl))
        names = ",".join(text(g.name) for g in grants)  # by themselves, so that the index serves
        pairs = ",".join(f"({text(g.name)},{text(g.owner)})" for g in grants)
        owners = ",".join(text(g.owner) for g in grants)
        held = f"l.name IN ({names}) AND (l.name,l.owner) IN ({pairs}) AND {self._end}>{NOW}"
        return (
            f"INSERT INTO {self._renewals} (owner,ttl,expires_at)"
            f" SELECT l.owner,{ttl},{NOW}+{ttl} FROM {self._held} WHERE {held} LOCK IN SHARE MODE"
            " ON DUPLICATE KEY UPDATE ttl=VALUES(ttl),expires_at=VALUES(expires_at);"
            f"SELECT l.owner,NULL FROM {self._held} WHERE {held} UNION ALL"
            f" SELECT owner,reason FROM {self._revoked} WHERE owner IN ({owners})"
        )

    def revoke(self, name: str, reason: str) -> str:
        """Take the lock from whoever holds it and remember why; see ``read_revoke``."""
        n = text(name)
        return (
            f"START TRANSACTION;SET @gone=NULL;{self._row % n};{self._settle % (n, n)}"
            f"SELECT owner INTO @gone FROM {self._locks} WHERE name={n} AND claimed=1"
            " AND owner<>'';"
            f"INSERT INTO {self._revoked} SELECT owner,{text(reason)},expires_at+ttl+{FORGET_US}"
            f" FROM {self._locks} WHERE name={n} AND owner=@gone"
            " ON DUPLICATE KEY UPDATE reason=VALUES(reason);"
            f"DELETE FROM {self._renewals} WHERE owner=@gone;"
            f"UPDATE {self._locks} SET owner='',expires_at={NOW} WHERE name={n} AND owner=@gone;"
            f"{self._hand_on % (n, n, n)}{self._whom % n}"
            f"SELECT @gone IS NOT NULL,@owner;COMMIT;{wake_sql('@inbox')}"
        )

    @property
    def verification(self) -> str:
        """For a transaction of the caller's: the row of a hold, locked against whoever takes it.

        Renewals do not change that row.
        """
        return (
            f"SELECT l.fence FROM {self._locks} l WHERE l.name=%s AND l.owner=%s AND l.claimed=1"
            f" AND (l.expires_at>{NOW} OR EXISTS (SELECT 1 FROM {self._renewals} r"
            f" WHERE r.owner=%s AND r.expires_at>{NOW})) LOCK IN SHARE MODE"
        )

    def state(self, name: str) -> str:
        """Read who holds a name, and who waits for it."""
        return f"{self._holders(f'l.name={text(name)}')};{self._waiting(name)}"

    def scan(self, prefix: str) -> str:
        """Read who holds names that begin with a prefix."""
        return self._holders(f"LEFT(l.name,{len(prefix.encode())})={text(prefix)}")

    def _holders(self, where: str) -> str:
        return (
            f"SELECT l.name,l.fence,COALESCE(r.ttl,l.ttl),{NOW}-l.since,{self._end}-{NOW},l.meta"
            f" FROM {self._held} WHERE {where} AND l.owner<>'' AND l.claimed=1"
            f" AND {self._end}>{NOW} ORDER BY l.name"
        )

    def _waiting(self, name: str) -> str:
        return (
            f"SELECT {NOW}-w.since,w.meta FROM {self._waiters} w LEFT JOIN {self._locks} l"
            f" ON l.name=w.name WHERE w.name={text(name)} AND w.owner<>COALESCE(l.owner,'')"
            f" AND w.seen_at>={NOW}-{FORGET_US} ORDER BY w.place"
        )

    def clean_up(self) -> str:
        """Remove rows that nobody uses. The last reply has names whose queue is to be settled.

        A row goes only when the fence was lifted above it a clean-up before, which is longer ago
        than any statement lasts that may have read the fence as it was.
        """
        locks, old = self._locks, f"{NOW}-{UNUSED_US}"
        unused = (
            f"{locks}.queued=0 AND {locks}.expires_at<{old} AND NOT EXISTS (SELECT 1 FROM"
            f" {self._renewals} r WHERE r.owner={locks}.owner AND r.expires_at>={old})"
        )
        return (
            f"DELETE FROM {locks} WHERE {unused}"
            f" AND {locks}.fence<=(SELECT f.fence FROM {self._fence} f) LIMIT 1000;"
            f"UPDATE {self._fence} SET fence=GREATEST(fence,COALESCE((SELECT MAX({locks}.fence)"
            f" FROM {locks} WHERE {unused}),0));"
            f"DELETE FROM {self._renewals} WHERE expires_at<{old} LIMIT 1000;"
            f"DELETE FROM {self._revoked} WHERE until<{NOW} LIMIT 1000;"
            f"SELECT name FROM {locks} WHERE queued>0 AND expires_at<{old} UNION"
            f" SELECT name FROM {self._waiters} WHERE seen_at<{NOW}-{FORGET_US} LIMIT 100"
        )


def wakeup_lock(inbox: str) -> str:
    """The session of the listener of an inbox, which has a lock by its name; NULL without one."""
    return f"IS_USED_LOCK(CONCAT('{WAKEUP_LOCK}',{inbox}))"


def wake_sql(inbox: str) -> str:
    """Wake the listener of an inbox: whoever has its lock. An error when nobody has it."""
    return f"KILL QUERY {wakeup_lock(inbox)}"


class Turn(NamedTuple):
    """What ``queue_or_take`` found."""

    ours: bool
    fence: int
    left_s: float
    meta: str
    ahead: int
    next_owner: bytes | None
    """To whom the lock was handed."""


def read_turn(replies: list[Reply]) -> Turn:
    ours, fence, left, meta, ahead, next_owner = replies[-2].rows[0]
    left_s = max(number(left) / 1e6, 0.001)
    return Turn(ours == b"1", number(fence), left_s, words(meta), number(ahead), next_owner)


def read_ahead(replies: list[Reply]) -> int | None:
    """How many wait before one that has joined; None when it is not so simple.

    One of the replies has our place as its insert id, and the last says how many are before us.
    """
    rows = replies[-1].rows
    if rows and any(reply.insert_id for reply in replies):
        return number(rows[0][0])
    return None


def read_next(replies: list[Reply]) -> bytes | None:
    """To whom a lock was handed, if to anybody."""
    return replies[-2].rows[0][0]


class Left(NamedTuple):
    """What ``leave`` found."""

    held: bool
    next_owner: bytes | None
    free_with_flag: bool


def read_leave(replies: list[Reply]) -> Left:
    next_owner, flagged = replies[-2].rows[0]
    return Left(replies[1].rows == [(b"1",)], next_owner, flagged == b"1")


def read_revoke(replies: list[Reply]) -> tuple[bool, bytes | None]:
    """Whether somebody held the lock, and to whom it was handed."""
    held, next_owner = replies[-2].rows[0]
    return held == b"1", next_owner


def read_renewals(replies: list[Reply], grants: Sequence[Grant]) -> list[Grant | Gone]:
    """Each grant that still holds, and why the others do not."""
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
