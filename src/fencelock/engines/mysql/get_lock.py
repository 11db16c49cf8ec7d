"""The SQL of ``mode=advisory``: ``GET_LOCK`` and fences, for MariaDB and MySQL.

MariaDB draws the fence from a sequence in the same expression, and its ``GET_LOCK`` takes fractions
of a second. MySQL can do neither: there the second statement of the packet raises a counter in the
server's memory, and a wait with a fraction is a longer one whose statement is ended by
``MAX_EXECUTION_TIME``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import EngineError
from ...model import Holding
from .errors import INTERRUPTED
from .literals import NOW, lock_literal, micros, text
from .names import lock_name
from .wire.codec import Reply, ServerError

LEFT_US = 60_000_000  # how long a holder's row stays after its end


def identity_lock(session: object) -> str:
    """Return the name of the lock, as SQL, that only this session of ours has."""
    return f"CONCAT('fencelock:session:',{session})"


class HolderRow(NamedTuple):
    """The row of the table of holders that describes a hold."""

    name: str
    owner: str
    session: int
    fence: int
    ttl: float
    age: float
    left: float
    meta: str


class GetLockSql:
    """The statements for one server, over the tables of one prefix."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._holders = f"{table}_holders"
        self.is_mariadb = True
        """Whether the server is MariaDB, not MySQL; set once that is known."""

    # Locking and unlocking

    @property
    def session_setup(self) -> str:
        """The statements that begin a session: fences are raised above the clock and the mark.

        The mark is a row of a durable table. Its commit also puts the change of the sequence on
        disk, which is not certain before. The last reply has the id of the session.
        """
        mark = f"{self._table}_fence"
        if self.is_mariadb:
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
            f"DO GET_LOCK({identity_lock('CONNECTION_ID()')},0);SELECT CONNECTION_ID()"
        )

    def acquire(self, lock: str, wait: float) -> str:
        """Take a lock, and wait so many seconds for it. ``read_fence`` reads the replies."""
        name = lock_literal(lock)
        if self.is_mariadb:
            return f"SELECT IF(GET_LOCK({name},{wait})=1,NEXTVAL({self._table}_sequence),0)"
        count = f"UPDATE {self._table}_fences SET fence=LAST_INSERT_ID(GREATEST(fence+1,{NOW}))"
        seconds = int(wait)
        if wait == seconds:
            return f"SELECT GET_LOCK({name},{seconds});{count}"
        brief = f"/*+ MAX_EXECUTION_TIME({wait * 1000:.0f}) */"
        return f"SELECT {brief} GET_LOCK({name},{seconds + 1});{count}"

    def read_fence(self, replies: list[Reply]) -> int | None:
        """Return the fence, 0 if the lock was not granted, None if the counter has lost its row."""
        if self.is_mariadb:
            return int(replies[0].rows[0][0] or 0)
        if replies[0].rows != [(b"1",)]:
            return 0
        return replies[1].insert_id or None

    def release(self, lock: str, shown_owner: str = "") -> str:
        """Release a lock; one that another session has stays as it is.

        The holder's row is deleted first, if there may be one.
        """
        hide = ""
        if shown_owner:
            hide = f"DELETE FROM {self._holders} WHERE owner={text(shown_owner)};"
        return f"{hide}DO RELEASE_LOCK({lock_literal(lock)})"

    def users(self, locks: Sequence[str]) -> str:
        """Read which sessions have these locks. ``read_users`` reads the replies."""
        return "SELECT " + ",".join(f"IS_USED_LOCK({lock_literal(lock)})" for lock in locks)

    # Who holds

    def show(self, rows: Sequence[HolderRow]) -> str:
        """Write the rows of holders, and delete old ones."""
        values = ",".join(
            f"({text(r.name)},{text(r.owner)},{r.session},{r.fence},{micros(r.ttl)},"
            f"{NOW}-{micros(r.age)},{NOW}+{micros(r.left)},{text(r.meta)})"
            for r in rows
        )
        return (
            f"DELETE FROM {self._holders} WHERE expires_at<{NOW}-{LEFT_US} LIMIT 100;"
            f"REPLACE INTO {self._holders}"
            f" (name,owner,session,fence,ttl,since,expires_at,meta) VALUES {values}"
        )

    def holder(self, name: str) -> str:
        """Read which session has a lock, and its holder's row. ``read_holder`` reads the replies.

        MySQL refuses NULL as the name of a lock, where MariaDB returns NULL.
        """
        return (
            f"SET @s=IS_USED_LOCK({lock_literal(lock_name(name))});"
            f"SELECT @s,IS_USED_LOCK({identity_lock('COALESCE(@s,0)')});"
            f"SELECT session,fence,ttl,{NOW}-since,expires_at-{NOW},meta FROM {self._holders}"
            f" WHERE name={text(name)}"
        )


def read_users(replies: list[Reply]) -> list[int]:
    """Return the id of the session that has each lock, or 0."""
    return [int(used or 0) for used in replies[-1].rows[0]]


def read_holder(name: str, replies: list[Reply]) -> tuple[Holding | None, bool]:
    """Return who holds a name, and whether the holder's row is still to come.

    Of a session that is not a client's of this library, only its id is known.
    """
    _, used, rows = replies
    session, ours = used.rows[0]
    if session is None:
        return None, False
    for number, fence, ttl, age, left, meta in rows.rows:
        if number == session:
            facts = (int(ttl or 0) / 1e6, int(age or 0) / 1e6, int(left or 0) / 1e6)
            return Holding(name, int(fence or 0), *facts, json.loads(meta or b"{}")), False
    return Holding(name, 0, 0.0, 0.0, 0.0, {"session": int(session)}), ours == session


def is_interrupted(error: EngineError) -> bool:
    """Return whether a statement was ended by its timeout, or by KILL QUERY."""
    cause = error.__cause__
    return isinstance(cause, ServerError) and cause.code in INTERRUPTED
