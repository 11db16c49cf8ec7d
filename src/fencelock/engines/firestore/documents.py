"""The document of a lock in its collection, and the writes that change it.

The document ``lock:NAME`` exists while NAME is held, and is deleted when it is released. Its fields
are ``owner``, ``ttl`` (seconds), ``meta`` (JSON text) and ``version``. Firestore itself keeps when
it was created and last updated. A renewal writes a new ``version``, because Firestore does not
change the update time of a document that is written without a change.

Beside it there may be ``memo:NAME``, with the numbers that recipes remember, and ``revoked:OWNER``,
with the reason for which a lock was taken from its owner. All of them are dead ``ttl`` seconds
after their last update, by the clock of Firestore. ``sweepAfter`` is a hint, by the clock of the
client that wrote it, when to check whether it is dead: nothing is decided by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ...model import Holding, Request

LOCK, MEMO, REVOKED = "lock:", "memo:", "revoked:"
SWEEP_AFTER = "sweepAfter"
NUMBER = "n:"  # the prefix of the fields of a memo, before the name of its item
NOT_THERE = 0  # in Write.version: the document must not exist

Fields: TypeAlias = Mapping[str, str | int | float]


class Document(NamedTuple):
    """A document as it was read. Times are Firestore's own, in microseconds."""

    id: str
    fields: Fields
    created_us: int
    updated_us: int
    read_us: int

    @property
    def left(self) -> float:
        """The seconds until it is dead."""
        return float(self.fields["ttl"]) - (self.read_us - self.updated_us) / 1e6

    @property
    def is_ours(self) -> bool:
        """Whether it has the fields that every document of ours has."""
        kinds = {field: type(value) for field, value in self.fields.items()}
        return kinds.get("ttl") is float and kinds.get("version") is str

    @property
    def owner(self) -> str:
        return str(self.fields.get("owner", ""))

    def holding(self, prefix: str) -> Holding:
        """Return the holder as it is shown."""
        age, meta = (self.read_us - self.created_us) / 1e6, str(self.fields.get("meta", "{}"))
        name = unescaped(self.id.removeprefix(LOCK)).removeprefix(prefix)
        ttl = float(self.fields["ttl"])
        return Holding(name, self.created_us, ttl, age, self.left, json.loads(meta))


class Write(NamedTuple):
    """A change of one document."""

    id: str
    fields: Fields | None  # None deletes it
    version: int | None = None  # the update time that it must have; None for any
    merge: bool = False  # whether other fields stay as they are
    raised: Fields = MappingProxyType({})  # numbers that are set unless they are that high already


def escaped(text: str) -> str:
    """Escape a text for a document's id, which takes no slash; prefixes stay prefixes."""
    return text.replace("~", "~t").replace("/", "~s")


def unescaped(text: str) -> str:
    return re.sub("~[st]", lambda found: "/" if found[0] == "~s" else "~", text)


def id_of(kind: str, text: str) -> str:
    """Return the id of a document. Its kind in front keeps it apart from reserved ids."""
    return kind + escaped(text)


def next_id(start: str) -> str:
    """Return the first id after all that begin with this; Firestore sorts ids by code points."""
    last = ord(start[-1])
    if last == 0x10FFFF:
        return next_id(start[:-1])
    return start[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


def acquired(id: str, request: Request, version: str, wall_us: int) -> Write:
    """Take a lock that has no document."""
    held = {"owner": request.owner, "meta": request.meta}
    return Write(id, {**held, **_lasting(request.ttl, version, wall_us)}, NOT_THERE)


def renewed(id: str, updated_us: int, ttl: float, version: str, wall_us: int) -> Write:
    """Have a lock last for a ttl from now, if that update was its last."""
    return Write(id, _lasting(ttl, version, wall_us), updated_us, merge=True)


def deleted(id: str, updated_us: int | None = None) -> Write:
    """Delete a document, if that update was its last."""
    return Write(id, None, updated_us)


def revoked(lock: Document, reason: str, version: str, wall_us: int) -> list[Write]:
    """Take a lock from its owner, and store the reason for as long as its lease would last."""
    ttl = float(lock.fields["ttl"])
    word = {"reason": reason, **_lasting(ttl, version, wall_us)}
    return [Write(id_of(REVOKED, lock.owner), word), deleted(lock.id, lock.updated_us)]


def remembered(id: str, item: str, number: int, keep: float, version: str, wall_us: int) -> Write:
    """Raise the number of an item, and how long the memo is kept."""
    fields = _lasting(keep, version, wall_us)
    raised = {"ttl": fields["ttl"], SWEEP_AFTER: fields[SWEEP_AFTER], NUMBER + item: number}
    return Write(id, {"version": version}, merge=True, raised=raised)


def numbers(memo: Document) -> dict[str, int]:
    """Return the numbers of a memo, by item."""
    found = memo.fields.items()
    return {f.removeprefix(NUMBER): int(n) for f, n in found if f.startswith(NUMBER)}


def _lasting(ttl: float, version: str, wall_us: int) -> dict[str, str | int | float]:
    return {"ttl": float(ttl), "version": version, SWEEP_AFTER: wall_us + round(ttl * 1e6)}
