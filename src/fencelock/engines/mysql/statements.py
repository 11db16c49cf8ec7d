"""The SQL of ``mode=lease``: what ``memory.py`` says, said with rows.

A lock that nobody contends for is taken by one statement and given back by one. Everything else is
one packet with a transaction in it that begins by locking the row of the name, so that all who
change a name or its queue come one after the other. The server runs a packet to its end even if the
client that sent it freezes: no transaction is ever left open by a client that thinks.

Values stand in the text as numbers, as plain words, or else as hexadecimal literals: no byte of a
name can be read as SQL, whatever the character set or the mode of the server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model import Grant, Request

NOW = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"

CLAIM_US = 500_000  # how long a lock that was handed over waits for its new holder
FORGET_US = 30_000_000  # a waiter that has not looked for so long is dead
UNUSED_US = 60_000_000  # how long the row of a free name stays
BELL = "fencelock:"
_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]+", re.ASCII).fullmatch


def text(value: str) -> str:
    """A literal that means exactly these bytes; plain words stay readable in the server's logs."""
    return f"'{value}'" if _PLAIN(value) else f"X'{value.encode().hex()}'"


def micros(seconds: float) -> int:
    """Seconds as the tables have them."""
    return round(seconds * 1e6)


class Statements:
    """All packets, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        locks, renewals, waiters = f"{table}_locks", f"{table}_renewals", f"{table}_waiters"
        self._locks, self._renewals, self._waiters = locks, renewals, waiters
        self._revoked, self._fence = f"{table}_revoked", f"{table}_fence"
        self._end = "GREATEST(l.expires_at,COALESCE(r.expires_at,0))"
        self._held = f"{locks} l LEFT JOIN {renewals} r ON r.owner=l.owner"
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
            f"UPDATE {locks} SET fence=LAST_INSERT_ID(GREATEST(fence+1,{NOW})),owner=%s,ttl=%d,"
            f"since={NOW},expires_at={NOW}+%d,claimed=1,meta=%s"
            " WHERE name=%s AND owner='' AND queued=0"
        )
        self._give_back = (
            f"UPDATE {locks} SET owner='',expires_at={NOW}"
            f" WHERE name=%s AND owner=%s AND queued=0 AND claimed=1 AND expires_at>{NOW}"
        )
        self._claim = (
            f"START TRANSACTION;UPDATE {locks} SET claimed=1,expires_at={NOW}+%d,"
            "queued=GREATEST(queued-1,0),fence=LAST_INSERT_ID(fence)"
            f" WHERE name=%s AND owner=%s AND claimed=0 AND expires_at>{NOW};"
            f"DELETE w FROM {waiters} w JOIN {locks} l ON l.owner=w.owner"
            " WHERE w.owner=%s AND l.name=%s AND l.claimed=1;COMMIT"
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
        self._settle = (  # what is over is taken away, and the lock handed on
            f"UPDATE {waiters} w JOIN {locks} l ON l.owner=w.owner SET w.lapsed=1"
            f" WHERE l.name=%s AND l.claimed=0 AND l.expires_at<={NOW};"
            f"UPDATE {self._held} SET l.owner='',l.claimed=1"
            f" WHERE l.name=%s AND l.owner<>'' AND {self._end}<={NOW};"
        )
        self._count = (
            f"UPDATE {locks} SET queued=(SELECT COUNT(*) FROM {waiters} WHERE name=%s)"
            " WHERE name=%s;"
        )
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
        return self._take_warm % (owner, ttl, ttl, text(request.meta), text(request.name))

    def give_back(self, name: str, owner: str) -> str:
        """Release a lock that nobody waits for; it affects one row, or none."""
        return self._give_back % (text(name), text(owner))

    def claim(self, request: Request) -> str:
        """Take what was handed over. The insert id of the second reply is the fence, or 0."""
        n, o = text(request.name), text(request.owner)
        return self._claim % (micros(request.ttl), n, o, o, n)

    def stand(self, request: Request, inbox: str) -> str:
        """Join the queue of a lock that is held, for the first time.

        The insert id of the second reply says how many stand there now; 0 when it is not so simple.
        """
        n, o = text(request.name), text(request.owner)
        held = f"name={n} AND owner<>'' AND owner<>{o} AND expires_at>{NOW}"
        return (
            f"START TRANSACTION;UPDATE {self._locks} SET queued=LAST_INSERT_ID(queued+1)"
            f" WHERE {held};"
            f"INSERT INTO {self._waiters} (owner,name,inbox,ttl,since,seen_at,lapsed,meta)"
            f" SELECT {o},{n},{text(inbox)},{micros(request.ttl)},{NOW},{NOW},0,"
            f"{text(request.meta)} FROM {self._locks} WHERE {held};COMMIT"
        )

    def pass_on(self, name: str, owner: str) -> str:
        """Hand a lock that is held to the first who waits.

        The third reply affects a row if there was one; the last but one says who.
        """
        n, o = text(name), text(owner)
        held = f"name={n} AND owner={o} AND claimed=1 AND expires_at>{NOW}"
        return (
            f"START TRANSACTION;UPDATE {self._locks} SET claimed=LAST_INSERT_ID(1) WHERE {held};"
            f"UPDATE {self._locks} l JOIN (SELECT owner,ttl,meta FROM {self._waiters}"
            f" WHERE name={n} AND owner<>{o} AND lapsed=0 AND seen_at>={NOW}-{FORGET_US}"
            f" ORDER BY place LIMIT 1)"
            f" w SET {self._given} WHERE l.name={n} AND l.owner={o} AND l.claimed=1"
            f" AND l.expires_at>{NOW};"
            f"{self._whom % n}SELECT @owner;COMMIT;{ring('@inbox')}"
        )

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
            f"{self._count % (n, n)}{self._whom % n}"
            f"SELECT l.owner={o},l.fence,{self._end}-{NOW},l.meta,"
            f"(SELECT COUNT(*) FROM {self._waiters} a WHERE a.name={n} AND a.owner<>l.owner"
            f" AND a.place<COALESCE((SELECT b.place FROM {self._waiters} b WHERE b.owner={o}),"
            f"1<<62)),@owner FROM {self._held} WHERE l.name={n};"
            f"COMMIT;{ring('@inbox')}"
        )

    def leave(self, name: str, owner: str) -> str:
        """Take an owner out of the lock and out of the queue, and hand the lock on."""
        n, o = text(name), text(owner)
        return (
            f"START TRANSACTION;SELECT l.owner={o} AND {self._end}>{NOW} FROM {self._held}"
            f" WHERE l.name={n} FOR UPDATE;"
            f"DELETE FROM {self._waiters} WHERE owner={o};"
            f"DELETE FROM {self._renewals} WHERE owner={o};"
            f"UPDATE {self._locks} SET owner='',claimed=1,expires_at={NOW}"
            f" WHERE name={n} AND owner={o};"
            f"{self._settle % (n, n)}{self._hand_on % (n, n, n)}{self._count % (n, n)}"
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
            f"{self._hand_on % (n, n, n)}{self._count % (n, n)}{self._whom % n}"
            f"SELECT @gone IS NOT NULL,@owner;COMMIT;{ring('@inbox')}"
        )

    def holders(self, where: str) -> str:
        """Those who hold, by name."""
        return (
            f"SELECT l.name,l.fence,COALESCE(r.ttl,l.ttl),{NOW}-l.since,{self._end}-{NOW},l.meta"
            f" FROM {self._held} WHERE {where} AND l.owner<>'' AND l.claimed=1"
            f" AND {self._end}>{NOW} ORDER BY l.name"
        )

    def waiting(self, name: str) -> str:
        """Those who wait for a name, first come first."""
        return (
            f"SELECT {NOW}-w.since,w.meta FROM {self._waiters} w LEFT JOIN {self._locks} l"
            f" ON l.name=w.name WHERE w.name={text(name)} AND w.owner<>COALESCE(l.owner,'')"
            f" AND w.seen_at>={NOW}-{FORGET_US} ORDER BY w.place"
        )

    def listen(self, inbox: str, nap_s: float) -> str:
        """Say who of an inbox has something to do, one for each name; else sleep until rung.

        Looking and sleeping are one statement: a bell that is rung after we have looked ends it.
        """
        stirs = (
            "l.name IS NULL OR l.owner='' OR (l.owner=w.owner AND l.claimed=0)"
            f" OR {self._end}<={NOW}"
        )
        return (
            f"SELECT c.calls,IF(c.calls IS NULL,SLEEP(LEAST({nap_s},GREATEST(0.002,"
            f"COALESCE((c.soonest-{NOW})/1000000,{nap_s})))),0) FROM (SELECT GROUP_CONCAT(n.owner)"
            " AS calls,MIN(n.soonest) AS soonest FROM (SELECT SUBSTRING_INDEX(GROUP_CONCAT("
            f"IF({stirs},w.owner,NULL) ORDER BY COALESCE(l.owner,'')<>w.owner,w.place),',',1)"
            f" AS owner,MIN({self._end}) AS soonest FROM {self._waiters} w"
            f" LEFT JOIN {self._locks} l ON l.name=w.name LEFT JOIN {self._renewals} r"
            f" ON r.owner=l.owner WHERE w.inbox={text(inbox)} GROUP BY w.name) n) c"
        )

    def alive(self, inbox: str) -> str:
        """Say that the waiters of an inbox are alive; it affects as many rows."""
        return f"UPDATE {self._waiters} SET seen_at={NOW} WHERE inbox={text(inbox)}"

    def forget(self, owners: Sequence[str]) -> str:
        """Remove waiters that nobody stands for; their names are counted anew by who comes next."""
        listed = ",".join(map(text, owners))
        return f"DELETE FROM {self._waiters} WHERE owner IN ({listed})"

    def tidy(self) -> str:
        """Remove rows that nobody uses. The last reply has names whose queue is to be settled.

        A row goes only when the fence was lifted above it a round before, which is longer ago than
        any statement lasts that may have read the fence as it was.
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


def ring(inbox: str) -> str:
    """Wake the listener of an inbox: whoever has its bell. An error when nobody has it."""
    return f"KILL QUERY IS_USED_LOCK(CONCAT('{BELL}',{inbox}))"
