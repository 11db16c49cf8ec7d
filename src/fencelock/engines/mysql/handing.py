"""The SQL of a lock that goes from hand to hand: stand in line, be woken, claim, pass on.

*The flag.* ``queued`` says that somebody may wait. While it is up, no lock is taken or given back
by the short way, which does not look at the queue. Who holds a lock and who has just stood in line
need not wait for each other: joining is an insert, without the row of the name. That is safe
because of two orders:

* Whoever joins first commits its place, and then looks whether the lock is held and the flag is up.
  Only then does it stand in line; otherwise it takes its turn behind the row of the name.
* The flag is lowered only on a lock that is free already, by a transaction that has its row and
  looks at the queue after that.

So of two who meet, one sees the other: a place that was committed before the lock became free is
seen by whoever would lower the flag, and a later one finds the lock free.
"""

from __future__ import annotations

from ...model import Request
from .literals import NOW, micros, text
from .looks import FORGET_US, Looks

CLAIM_US = 500_000  # how long a lock that was handed over waits for its new holder
BELL = "fencelock:"


class Handing(Looks):
    """What those ask who contend, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        locks, waiters = self._locks, self._waiters
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

    def claim(self, request: Request) -> str:
        """Take what was handed over. The insert id of the second reply is the fence, or 0."""
        n, o = text(request.name), text(request.owner)
        return self._claim % (micros(request.ttl), n, o, o)

    def stand(self, request: Request, inbox: str, flagged: bool) -> str:
        """Join the queue of a lock that is held, for the first time.

        ``flagged`` is that the flag should be up: then the row of the name is not touched. One of
        the replies has our place as its insert id, and the last says how many stand before us;
        without either it is not so simple.
        """
        n, o = text(request.name), text(request.owner)
        held = f"name={n} AND owner<>'' AND owner<>{o} AND expires_at>{NOW}"
        join = (
            f"INSERT INTO {self._waiters} (owner,name,inbox,ttl,since,seen_at,lapsed,meta)"
            f" SELECT {o},{n},{text(inbox)},{micros(request.ttl)},{NOW},{NOW},0,"
            f"{text(request.meta)} FROM {self._locks} WHERE {held} AND queued>0"
            " ON DUPLICATE KEY UPDATE seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox),"
            "place=LAST_INSERT_ID(place);"  # it asks again, through another client perhaps
        )
        if not flagged:
            raise_flag = f"UPDATE {self._locks} SET queued=1 WHERE {held};"
            join = f"START TRANSACTION;{raise_flag}{join}COMMIT;"
        return (
            f"{join}SELECT (SELECT COUNT(*) FROM {self._waiters} WHERE name={n}"
            f" AND place<LAST_INSERT_ID()) FROM {self._locks}"
            f" WHERE name={n} AND owner<>'' AND queued>0"
        )

    def pass_on(self, name: str, owner: str, tell: bool) -> str:
        """Hand a lock that is held to the first who waits.

        The third reply affects a row if there was one; the last but one says who, if ``tell``.
        """
        n, o = text(name), text(owner)
        return (
            f"START TRANSACTION;{self._next % (n, o, n)}{self._give % (n, o)}"
            f"{'SELECT @owner;' if tell else ''}COMMIT;{ring('@inbox')}"
        )

    def listen_for(self, owner: str, nap_s: float) -> str:
        """The same as ``listen`` for a client with one waiter, at a third of the cost or less."""
        stirs = f"w.owner IS NOT NULL AND ({self._stirs})"
        return (
            f"SELECT IF({stirs},w.owner,NULL),IF({stirs},0,SLEEP(LEAST({nap_s},GREATEST(0.002,"
            f"COALESCE(({self._end}-{NOW})/1000000,{nap_s}))))) FROM (SELECT 1) one"
            f" LEFT JOIN {self._waiters} w ON w.owner={text(owner)}"
            f" LEFT JOIN {self._locks} l ON l.name=w.name"
            f" LEFT JOIN {self._renewals} r ON r.owner=l.owner"
        )


def bell(inbox: str) -> str:
    """The session of the listener of an inbox; NULL when it has none."""
    return f"IS_USED_LOCK(CONCAT('{BELL}',{inbox}))"


def ring(inbox: str) -> str:
    """Wake the listener of an inbox: whoever has its bell. An error when nobody has it."""
    return f"KILL QUERY {bell(inbox)}"
