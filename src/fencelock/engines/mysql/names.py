"""Names for ``GET_LOCK``: the same lock in MySQL and in MariaDB, and never two names in one.

MySQL takes 64 characters and ignores case; MariaDB takes 192 and does not. A name that both accept
is not changed, so that other users of ``GET_LOCK`` share the lock. All others are hashed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

MARK = "fencelock#"
_PLAIN = re.compile(r"[!-@\[-~]{1,64}")  # printable ASCII without spaces and upper-case letters


@lru_cache(10_000)
def lock_name(name: str) -> str:
    """Return the name of the lock on the server."""
    if _PLAIN.fullmatch(name) and not name.startswith(("fencelock#", "fencelock:")):
        return name
    return MARK + sha256(name.encode()).hexdigest()[:48]
