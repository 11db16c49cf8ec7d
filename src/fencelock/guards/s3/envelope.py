"""Write and read the mark of an object: in its first line, before the data.

Why not in the object's metadata? A conditional write names the ETag of what it replaces, and the
ETag is made from the content alone. A mark in the metadata could be raised, or written with the
same data, without a change of the ETag; an older writer, who has looked before, would then pass.

The line has always the same length, so that a reader can ask for what comes behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from ..fence import MARK_DIGITS

__all__ = ["SIZE", "Envelope", "unwrap", "wrap"]

_DATA, _GONE = b"fencelock-mark:", b"fencelock-gone:"

SIZE = len(_DATA) + MARK_DIGITS + 1
"""How many bytes stand before the data."""


class Envelope(NamedTuple):
    """A mark, and the data or None where there is no data or it was deleted."""

    mark: int
    data: bytes | None


def wrap(mark: int, data: bytes | None) -> bytes:
    """What is stored for this data; None says that it was deleted."""
    kind = _GONE if data is None else _DATA
    return kind + f"{mark:0{MARK_DIGITS}d}\n".encode() + (data or b"")


def unwrap(body: bytes) -> Envelope:
    """What was stored. An object that no guard has written has no mark and is all data."""
    head, kind, digits = body[:SIZE], body[: len(_DATA)], body[len(_DATA) : SIZE - 1]
    ours = len(head) == SIZE and head.endswith(b"\n") and digits.isdigit()
    if ours and kind == _GONE:
        return Envelope(int(digits), None)
    if ours and kind == _DATA:
        return Envelope(int(digits), body[SIZE:])
    return Envelope(0, body)
