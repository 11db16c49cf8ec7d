"""The number by which PostgreSQL knows an advisory lock.

The first 8 bytes of the SHA-256 of the name, as a signed integer: any language can work it out.
Among a hundred thousand names the chance that two meet is below one in three thousand million.
Where two meet all the same, they wait for each other; nobody is let in twice.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256


@lru_cache(maxsize=1000)
def key_of(name: str) -> int:
    """The 64-bit key of a name."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)
