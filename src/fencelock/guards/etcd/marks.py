"""Requests about the marks themselves: to look at them, to set them, to remove the old ones."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import UsageError
from .transaction import delete, put, read_mark, values, written

__all__ = ["Json", "look", "page", "removals", "seen", "setting"]

Json = Mapping[str, Any]

PAGE = 500  # marks that one look at them reads


def look(key: bytes) -> Json:
    """The body of a POST to ``/v3/kv/range`` that reads one mark."""
    return {"key": _text(key)}


def seen(reply: Json) -> int:
    """The mark in the answer to that."""
    return read_mark(next(values([{"response_range": reply}])))


def setting(key: bytes, mark: int, stamp: int) -> Json:
    """A transaction that sets a mark whatever it was; 0 removes it."""
    value = f"{written(mark)} {stamp}"
    return {"success": [(put(key, value) if mark else delete(key)).json()]}


def page(prefix: str, last: Sequence[Json] = ()) -> Json:
    """The body of a POST to ``/v3/kv/range`` that reads the marks after those of the last page."""
    first = prefix.encode()
    return {
        "key": _text(b64decode(last[-1]["key"]) + b"\0" if last else first),
        "range_end": _text(first[:-1] + bytes([first[-1] + 1])),  # UTF-8 never ends with 255
        "limit": str(PAGE),
    }


def is_last(found: Sequence[Json]) -> bool:
    return len(found) < PAGE


def removals(found: Sequence[Json], before: float) -> Iterator[Json]:
    """For each mark of an older time, a transaction that removes it if it is still the same."""
    for each in found:
        stamp = b64decode(each.get("value", "")).partition(b" ")[2]
        if stamp.isdigit() and int(stamp) < before:
            key, revision = each["key"], each["mod_revision"]
            same = {"result": "EQUAL", "target": "MOD", "key": key, "mod_revision": revision}
            yield {"compare": [same], "success": [delete(b64decode(key)).json()]}


def check_seconds(seconds: object) -> float:
    """How old a mark must be to be forgotten, or UsageError."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not seconds > 0:  # type: ignore[operator]  # a number by now
        raise UsageError(f"marks are forgotten after a number of seconds, not after {seconds!r}")
    return float(seconds)  # type: ignore[arg-type]


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()
