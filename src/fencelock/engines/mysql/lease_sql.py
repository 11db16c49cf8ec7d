"""The SQL of ``mode=lease``: what ``memory.py`` says, said with rows.

A lock that nobody contends for is taken by one statement and given back by one. Everything else is
one packet with a transaction in it that begins by locking the row of the name, so that all who
change a name or its queue come one after the other. The server runs a packet to its end even if the
client that sent it freezes: no transaction is ever left open by a client that thinks.

``handing.py`` has what those say who contend, ``looks.py`` what only looks, and ``literals.py`` how
values stand in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Grant, Request
from .handing import CLAIM_US, Handing, bell, ring
from .literals import NOW, known, micros, text
from .looks import FORGET_US


class Statements(Handing):
    """All packets, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        locks, waiters = self._locks, self._waiters
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
        self._take_warm = (
            f"UPDATE {locks} SET since={NOW},fence=LAST_INSERT_ID(GREATEST(fence+1,since)),"
            "expires_at=since+%d,owner=%s,ttl=%d,claimed=1,meta=%s"
            " WHERE name=%s AND owner='' AND queued=0"
        )
        self._give_back = (
            f"UPDATE {locks} SET owner='',expires_at={NOW}"
            f" WHERE name=%s AND owner=%s AND queued=0 AND claimed=1 AND expires_at>{NOW}"
        )
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
            f" AND (w.inbox<=>h.inbox OR {bell('w.inbox')} IS NULL);"
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

    def take(self, request: Request) -> str:
        """Take a free lock that nobody waits for. Its insert id is the fence, or 0."""
        ttl = micros(request.ttl)
        return self._take % (text(request.name), text(request.owner), ttl, ttl, text(request.meta))

    def take_warm(self, request: Request) -> str:
        """The same for a name whose row is there: at a third of the cost for the server."""
        ttl, owner = micros(request.ttl), text(request.owner)
        return self._take_warm % (ttl, owner, ttl, known(request.meta), known(request.name))

    def give_back(self, name: str, owner: str) -> str:
        """Release a lock that nobody waits for; it affects one row, or none."""
        return self._give_back % (known(name), text(owner))

    def turn(self, request: Request, inbox: str) -> str:
        """Settle the name, stand in line if asked to, and take the lock if it is our turn.

        The last reply but one says who has it now; the one before, whom to wake.
        """
        n, o, ttl = text(request.name), text(request.owner), micros(request.ttl)
        meta = text(request.meta)
        if request.queue:
            stand = (
                f"INSERT INTO {self._waiters} (owner,name,inbox,ttl,since,seen_at,lapsed,meta)"
                f" SELECT {o},{n},{text(inbox)},{ttl},{NOW},{NOW},0,{meta} FROM {self._locks}"
                f" WHERE name={n} AND owner<>{o} ON DUPLICATE KEY UPDATE"
                " seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox);"
            )
            take = ""
        else:
            stand = ""
            take = (
                f"UPDATE {self._locks} SET fence=GREATEST(fence+1,{NOW}),owner={o},ttl={ttl},"
                f"since={NOW},claimed=0,expires_at={NOW}+{ttl},meta={meta}"
                f" WHERE name={n} AND owner='';"
            )
        return (
            f"START TRANSACTION;{self._row % n};{self._settle % (n, n)}{stand}"
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
            f"COMMIT;{ring('@inbox')}"
        )

    def leave(self, name: str, owner: str) -> str:
        """Take an owner out of the lock and out of the queue, and hand the lock on.

        The last reply but one says who has it now, and whether it is free with the flag up.
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
            f"COMMIT;{ring('@inbox')}"
        )

    def renounce(self, owner: str) -> str:
        """Give back what was handed to a waiter that has left; what it has claimed stays as it is.

        The last reply but one says who has it now.
        """
        n, o = "@name", text(owner)
        return (
            f"START TRANSACTION;SET @name=NULL;SELECT name INTO @name FROM {self._waiters}"
            f" WHERE owner={o};SELECT 1 FROM {self._locks} WHERE name={n} FOR UPDATE;"
            f"DELETE FROM {self._waiters} WHERE owner={o};"
            f"UPDATE {self._locks} SET owner='',claimed=1,expires_at={NOW}"
            f" WHERE name={n} AND owner={o} AND claimed=0;"
            f"{self._settle % (n, n)}{self._hand_on % (n, n, n)}{self._whom % n}"
            f"SELECT @owner;COMMIT;{ring('@inbox')}"
        )

    def lower(self, name: str) -> str:
        """Lower the flag of a lock that is free, or hand it to who has joined meanwhile.

        The row comes first and then the queue: see ``handing.py``. The last reply but one says who.
        """
        n = text(name)
        return (
            f"START TRANSACTION;SELECT 1 FROM {self._locks} WHERE name={n} FOR UPDATE;"
            f"{self._hand_on % (n, n, n)}UPDATE {self._locks} SET queued={self._waits % n}"
            f" WHERE name={n} AND owner='' AND queued>0;"
            f"{self._whom % n}SELECT @owner;COMMIT;{ring('@inbox')}"
        )

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
        """Take the lock from whoever holds it and remember why. The first rows say who it was."""
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
            f"SELECT @gone IS NOT NULL,@owner;COMMIT;{ring('@inbox')}"
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
