"""How a lock and its fence are got in one packet, in the words of either server.

MariaDB draws the fence from a sequence in the same expression, and waits for fractions of seconds.
MySQL has neither: there a counter in the server's memory is the second statement of the packet, and
a wait of less than a second is a longer one whose statement is ended in time.
"""

from __future__ import annotations

from ...errors import EngineError
from .codec import Reply, ServerError
from .faults import INTERRUPTED
from .holders import badge, literal
from .literals import NOW
from .server import Server


class GetLock:
    """The words for one server, over the tables of one prefix."""

    def __init__(self, server: Server, table: str) -> None:
        self._mariadb, self._table = server.is_mariadb, table

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
            return f"SELECT IF(GET_LOCK({name},{wait})=1,NEXTVAL({self._table}_sequence),0)"
        brief, seconds = "", int(wait)
        if wait != seconds:
            brief, seconds = f"/*+ MAX_EXECUTION_TIME({wait * 1000:.0f}) */ ", seconds + 1
        return (
            f"SELECT {brief}GET_LOCK({name},{seconds});UPDATE {self._table}_fences"
            f" SET fence=LAST_INSERT_ID(GREATEST(fence+1,{NOW}))"
        )

    def fence(self, replies: list[Reply]) -> int | None:
        """The fence, or 0 when the lock was not given; None when the counter has lost its row."""
        if self._mariadb:
            return int(replies[0].rows[0][0] or 0)
        if replies[0].rows != [(b"1",)]:
            return 0
        return replies[1].insert_id or None


def is_interrupted(error: EngineError) -> bool:
    """Whether a statement was ended because its time was over, or by KILL QUERY."""
    cause = error.__cause__
    return isinstance(cause, ServerError) and cause.code in INTERRUPTED
