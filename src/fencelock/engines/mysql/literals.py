"""Values in the text of a statement.

They stand there as numbers, as plain words, or else as hexadecimal literals: no byte of a name can
be read as SQL, whatever the character set or the mode of the server.
"""

from __future__ import annotations

import re
from functools import lru_cache

NOW = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
"""The server's clock, in microseconds."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:/{}\[\]\", -]+", re.ASCII).fullmatch


def text(value: str) -> str:
    """A literal that means exactly these bytes; plain words stay readable in the server's logs.

    No plain word has what ends a literal or a statement, or what stands for another character.
    """
    return f"'{value}'" if _PLAIN(value) else f"X'{value.encode().hex()}'"


@lru_cache(1000)
def known(value: str) -> str:
    """The same for what comes again and again: names, and what holders say of themselves."""
    return text(value)


@lru_cache(10_000)
def lock_literal(lock: str) -> str:
    """The name of a lock by ``GET_LOCK``: text of one character set, whatever the session's."""
    return f"_utf8mb4 {text(lock)}"


def micros(seconds: float) -> int:
    """Seconds as the tables have them."""
    return round(seconds * 1e6)
