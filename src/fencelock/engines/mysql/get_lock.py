"""How locks and their fences are got in one packet, in the words of either server.

MariaDB draws the fence from a sequence in the same expression, and waits for fractions of seconds.
MySQL has neither: there a counter in the server's memory is the second statement of the packet, and
a wait of less than a second is a longer one whose statement is ended in time.

Several are answered in one value: a column for each would cost more to describe than to fill.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import EngineError
from .errors import INTERRUPTED
from .holder_table import literal
from .literals import NOW
from .server import Server
from .wire.codec import Reply, ServerError
from .wire.session_pool import badge


class GetLock:
    """The words for one server, over the tables of one prefix."""

    def __init__(self, server: Server, table: str) -> None:
        self._mariadb, self._table = server.is_mariadb, table
        self._draw = f"NEXTVAL({table}_sequence)"
        self._count = f"UPDATE {table}_fences SET fence=LAST_INSERT_ID"

    @property
    def greeting(self) -> str:
        """How each session begins: fences are lifted above the clock and above the lasting mark.

        The mark is then committed, which puts on disk what a sequence has only promised to.
        """
        mark = f"{self._table}_fence"
        if self._mariadb:
            drawn = "0"
            lift = (  # SETVAL takes nothing but a number, and never goes back
                f"SET @mark=(SELECT GREATEST(fence,{NOW}) FROM {mark} WHERE id=1);"
                f"EXECUTE IMMEDIATE CONCAT('DO SETVAL({self._table}_sequence,',@mark,')')"
            )
        else:
            drawn = f"COALESCE((SELECT MAX(fence) FROM {self._table}_fences),0)"
            lift = (
                f"INSERT IGNORE INTO {self._table}_fences SELECT 1,GREATEST(fence,{NOW})"
                f" FROM {mark} WHERE id=1"
            )
        return (
            f"{lift};UPDATE {mark} SET fence=GREATEST(fence,{NOW},{drawn}) WHERE id=1;"
            f"DO GET_LOCK({badge('CONNECTION_ID()')},0)"
        )

    def sql(self, lock: str, wait: float) -> str:
        """Ask for a lock, and wait so long for it."""
        name = literal(lock)
        if self._mariadb:
            return f"SELECT IF(GET_LOCK({name},{wait})=1,{self._draw},0)"
        count = f"{self._count}(GREATEST(fence+1,{NOW}))"
        seconds = int(wait)
        if wait == seconds:
            return f"SELECT GET_LOCK({name},{seconds});{count}"
        brief = f"/*+ MAX_EXECUTION_TIME({wait * 1000:.0f}) */"
        return f"SELECT {brief} GET_LOCK({name},{seconds + 1});{count}"

    def sql_for_all(self, locks: Sequence[str]) -> str:
        """Ask for several locks, and wait for none."""
        if self._mariadb:
            draw = self._draw
            tries = ",".join([f"IF(GET_LOCK({literal(lock)},0)=1,{draw},0)" for lock in locks])
            return f"SELECT CONCAT_WS(',',{tries}) g"
        tries = ",".join([f"GET_LOCK({literal(lock)},0)<=>1" for lock in locks])
        return f"SELECT CONCAT({tries}) g;{self._count}(GREATEST(fence,{NOW})+{len(locks)})"

    def fences(self, replies: list[Reply], count: int) -> list[int] | None:
        """The fence for each of so many, or 0; None when the counter has lost its row."""
        got = (replies[0].rows[0][0] or b"").decode()
        if self._mariadb:
            return [int(fence) for fence in got.split(",")]
        if "1" not in got:
            return [0] * count
        last = replies[1].insert_id
        if not last:
            return None
        return [last - place if one == "1" else 0 for place, one in enumerate(got)]

    def fence(self, replies: list[Reply]) -> int | None:
        """The fence, or 0 when the lock was not given; None when the counter has lost its row."""
        if self._mariadb:
            return int(replies[0].rows[0][0] or 0)
        if replies[0].rows != [(b"1",)]:
            return 0
        return replies[1].insert_id or None


def release_sql(locks: Sequence[str]) -> str:
    """Give locks back; one that the session does not have stays as it is."""
    return "DO " + ",".join([f"RELEASE_LOCK({literal(lock)})" for lock in locks])


def is_interrupted(error: EngineError) -> bool:
    """Whether a statement was ended because its time was over, or by KILL QUERY."""
    cause = error.__cause__
    return isinstance(cause, ServerError) and cause.code in INTERRUPTED
