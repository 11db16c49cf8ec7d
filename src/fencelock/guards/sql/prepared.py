"""psycopg's own prepared statements, and whether one of them may be relied on.

In a transaction of the caller's a statement that is gone does harm: the whole transaction fails.
psycopg knows which of its statements are there, and throws them away itself after a rollback, so
it is asked each time. It keeps that to itself in attributes that are not promised to stay: where
they are missing, nothing is relied on.

Nor is it behind a pooler, which gives each transaction another session. One shows itself by the
process of the server: it is not the one that the connection was told of when it was made.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from .adapters import PARAMETER

__all__ = ["Memory", "memory", "numbered"]

# psycopg does not look at what comes of a text that it has seen before, while nothing was prepared.
_DROPS = re.compile(rb"\b(DISCARD|DEALLOCATE)\b", re.IGNORECASE)


class Memory:
    """What is known of one connection."""

    __slots__ = ("_keys", "direct", "named")

    def __init__(self) -> None:
        self.named: set[str] = set()
        """Statements that were prepared there under names of ours."""
        self.direct: bool | None = None
        """No pooler is between, so that a statement stays where it was prepared."""
        self._keys: dict[str, Any] = {}

    def name_of(self, connection: Any, sql: str) -> bytes | None:
        """The name under which psycopg has it prepared; None when it has not."""
        key = self._keys.get(sql)  # there is none unless psycopg has these attributes
        if key is None or not self.direct:
            return None
        theirs = connection._prepared
        return None if theirs.prepare_threshold is None else theirs._names.get(key)

    def may_prepare(self, connection: Any) -> bool:
        """Whether psycopg would notice should the statement vanish, once it has prepared it."""
        theirs = getattr(connection, "_prepared", None)
        counts: Any = getattr(theirs, "_counts", None)
        if not self.direct or counts is None or _names(connection) is None:
            return False
        if getattr(theirs, "_to_flush", True):  # psycopg is about to drop some, or all
            return False
        return not any(_DROPS.search(query) for query, _ in counts)

    def look_for(self, connection: Any, sql: str) -> None:
        """Find it among what psycopg has prepared; where it is not, do not try again."""
        names = _names(connection) or {}
        text = numbered(sql).encode()
        key = next((key for key in names if key[0] == text), None)
        if key is None:
            self.direct = False
        else:
            self._keys[sql] = key


def memory(connection: Any) -> Memory:
    """What is known of this connection."""
    found = _memories.get(connection)
    if found is None:
        found = _memories[connection] = Memory()
    return found


_memories: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


@lru_cache(maxsize=64)
def numbered(sql: str) -> str:
    """A statement as PostgreSQL is told of it. It has each of its parameters once."""
    places = count(1)
    return PARAMETER.sub(lambda _: f"${next(places)}", sql)


def _names(connection: Any) -> dict[Any, bytes] | None:
    return getattr(getattr(connection, "_prepared", None), "_names", None)
