"""Pack a lease into a text that goes from one process to another, and unpack it.

The text contains the owner id and is therefore the right to renew and release: the holder of the
token holds the lock. It is never shown in a message or a log.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from ..errors import UsageError
from ..model import READERS_MAX, Grant, Share, check_fence
from .validation import check_limit, check_linger, check_name, check_ttl

_PREFIX = "fl1."


def pack(grant: Grant, delay: float = 0.0) -> str:
    """Return the token of a grant: only letters, digits, ``-``, ``_`` and ``.``."""
    facts: list[Any] = [grant.name, grant.owner, grant.fence, grant.ttl]
    if delay or grant.share is not None:
        facts += [delay, grant.share]
    text = json.dumps(facts, separators=(",", ":"))
    return _PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unpack(text: str) -> tuple[Grant, float]:
    """Read a token: a grant and its delay. The UsageError for another text never shows the text."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            f"the token of a lease is a str, not {type(text).__name__}: pass what hand_over() gave"
        )
    body = text.strip().removeprefix(_PREFIX)
    try:
        name, owner, fence, ttl, *more = json.loads(
            base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        )
        if not isinstance(owner, str) or not text.strip().startswith(_PREFIX):
            raise TypeError
        delay, share = more or (0.0, None)
        grant = Grant(check_name(name), owner, check_fence(fence), check_ttl(ttl), 0.0, 0.0)
        return grant._replace(share=_share(share)), check_linger(delay, "delay")
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise UsageError("this is not the token of a lease: pass what hand_over() gave") from None


def _share(facts: Any) -> Share | None:
    if facts is None:
        return None
    kind, units, limit, slot = facts
    if kind == "semaphore":
        return Share(kind, 1, check_limit(limit), check_limit(slot + 1) - 1)
    if kind == "rwlock" and units in (1, READERS_MAX):
        return Share(kind, units, READERS_MAX)
    raise TypeError
