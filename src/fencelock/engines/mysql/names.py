"""Names for ``GET_LOCK``: the same lock in MySQL and in MariaDB, and never two names in one.

MySQL takes 64 characters and does not tell upper from lower case; MariaDB takes 192 and does. A
name that both take as it is stays as it is, so that other users of ``GET_LOCK`` share the lock. All
others are hashed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

MARK = "fencelock#"
_PLAIN = re.compile(r"[!-@\[-~]{1,64}")  # ASCII that can be seen, without capitals


@lru_cache(10_000)
def lock_name(name: str) -> str:
    """What to call the lock on the server."""
    if _PLAIN.fullmatch(name) and not name.startswith(("fencelock#", "fencelock:")):
        return name
    return MARK + sha256(name.encode()).hexdigest()[:48]
