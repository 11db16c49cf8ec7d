"""The 64-bit key of a name's advisory lock in PostgreSQL.

The first 8 bytes of the SHA-256 of the name, as a signed integer: any language can compute it.
Among a hundred thousand names the chance of a collision is below one in three thousand million.
Names that do collide wait for each other; the lock is never granted twice.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256


@lru_cache(maxsize=1000)
def key_of(name: str) -> int:
    """Return the 64-bit key of a name."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)
