"""The SQL of ``mode=lease`` that takes no lock: who holds, who waits, who lives, what is left."""

from __future__ import annotations

from collections.abc import Sequence

from .literals import NOW, text

FORGET_US = 30_000_000  # a waiter that has not looked for so long is dead
UNUSED_US = 60_000_000  # how long the row of a free name stays


class Looks:
    """What is asked beside the locking, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        self._locks, self._renewals = f"{table}_locks", f"{table}_renewals"
        self.locks = self._locks
        self._waiters, self._revoked = f"{table}_waiters", f"{table}_revoked"
        self._fence = f"{table}_fence"
        self._end = "GREATEST(l.expires_at,COALESCE(r.expires_at,0))"
        self._stirs = (  # what a waiter has to look at
            "l.name IS NULL OR l.owner='' OR (l.owner=w.owner AND l.claimed=0)"
            f" OR {self._end}<={NOW}"
        )
        self._held = f"{self._locks} l LEFT JOIN {self._renewals} r ON r.owner=l.owner"

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
        return (
            f"SELECT c.calls,IF(c.calls IS NULL,SLEEP(LEAST({nap_s},GREATEST(0.002,"
            f"COALESCE((c.soonest-{NOW})/1000000,{nap_s})))),0) FROM (SELECT GROUP_CONCAT(n.owner)"
            " AS calls,MIN(n.soonest) AS soonest FROM (SELECT SUBSTRING_INDEX(GROUP_CONCAT("
            f"IF({self._stirs},w.owner,NULL) ORDER BY COALESCE(l.owner,'')<>w.owner,w.place),',',1)"
            f" AS owner,MIN({self._end}) AS soonest FROM {self._waiters} w"
            f" LEFT JOIN {self._locks} l ON l.name=w.name LEFT JOIN {self._renewals} r"
            f" ON r.owner=l.owner WHERE w.inbox={text(inbox)} GROUP BY w.name) n) c"
        )

    def alive(self, inbox: str, owners: Sequence[str]) -> str:
        """Say that the waiters of an inbox are alive; it affects as many rows.

        They stand in line again if they were passed over meanwhile. A single one is named:
        ``listen_for`` does not notice strays, and so they are not kept.
        """
        whose = f"owner={text(owners[0])}" if len(owners) == 1 else f"inbox={text(inbox)}"
        return f"UPDATE {self._waiters} SET seen_at={NOW},lapsed=0 WHERE {whose}"

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
