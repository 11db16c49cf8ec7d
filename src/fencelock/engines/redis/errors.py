"""Map a server's error replies: one table, from the first word of the reply to an error of ours.

The server answers an error before it has changed anything, so each means that nothing happened.
"""

from __future__ import annotations

from typing import Any

from ...errors import Denied, EngineError, Misconfigured, Unavailable
from ...model import Meta

FOREIGN: Meta = {"program": "not fencelock"}
"""The meta that is shown for a holder that is another program, or a key that is no lock at all."""
ENDLESS: Meta = {**FOREIGN, "expiry": "none"}
"""The same where the key has no expiry: it is held until somebody removes it."""


def foreign(left_ms: int) -> Meta:
    """Return the meta of a holder that is not one of ours; -1 ms means that it has no expiry."""
    return ENDLESS if left_ms == -1 else FOREIGN


class Moved(Exception):
    """The answering server is not the one that serves this key now."""


_MOVED = ("MOVED", "ASK", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED")

_TABLE: dict[str, tuple[type[EngineError], str]] = {
    "LOADING": (Unavailable, "the server is reading its data: try again in a moment"),
    "MASTERDOWN": (Unavailable, "the server is a replica without its primary"),
    "NOREPLICAS": (Unavailable, "too few replicas are connected: see min-replicas-to-write"),
    "BUSY": (Unavailable, "a script of another program keeps the server busy"),
    "OOM": (Unavailable, "the server is out of memory: raise maxmemory or free some"),
    "MISCONF": (Unavailable, "the server cannot write to its disk and takes no changes"),
    "NOAUTH": (Denied, "the server asks for a password: write redis://user:password@host"),
    "WRONGPASS": (Denied, "the server refuses the user or the password"),
    "NOPERM": (
        Denied,
        "the user may not do that: see which rights the page of the engine lists",
    ),
    "WRONGTYPE": (
        Misconfigured,
        "the key of this lock is used by something else: choose another name or a prefix",
    ),
    "NOFENCE": (
        Misconfigured,
        "the fence in this key is as high as fences go, and nobody of ours drew it: remove the key",
    ),
    "ERR": (Misconfigured, "it must be Redis 6.2 or newer, and be what the URL says it is"),
}


def items(reply: Any) -> list[Any]:
    """Return the parts of a reply that is an array; none of any other."""
    if not isinstance(reply, list):
        return []
    found: list[Any] = reply  # pyright: ignore[reportUnknownVariableType]
    return found


def mapped(text: str, where: str) -> Exception:
    """Return the error of ours for an error reply."""
    word = text.partition(" ")[0]
    if word in _MOVED:
        return Moved(text)
    kind, advice = _TABLE.get(word, (Unavailable, "the server refused the request"))
    return kind(f"{where}: {advice} ({text}); nothing happened")
