"""Write values into the text of a statement.

They are written as numbers, as quoted plain words, or else as hexadecimal literals: no byte of a
name can be read as SQL, whatever the character set or the SQL mode of the server.
"""

from __future__ import annotations

import re
from functools import lru_cache

NOW = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
"""The server's clock, in microseconds."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:/{}\[\]\", -]+", re.ASCII).fullmatch


def text(value: str) -> str:
    """Return a literal of exactly these bytes; plain words stay readable in the server's logs.

    No plain word has a character that ends a literal or a statement, or begins an escape.
    """
    return f"'{value}'" if _PLAIN(value) else f"X'{value.encode().hex()}'"


@lru_cache(1000)
def known(value: str) -> str:
    """Return ``text`` of a value that is used often, such as a name or a holder's meta."""
    return text(value)


@lru_cache(10_000)
def lock_literal(lock: str) -> str:
    """Return the literal of a lock's name for ``GET_LOCK``, in utf8mb4 whatever the session's."""
    return f"_utf8mb4 {text(lock)}"


def micros(seconds: float) -> int:
    """Return seconds as microseconds, the unit of the tables."""
    return round(seconds * 1e6)
