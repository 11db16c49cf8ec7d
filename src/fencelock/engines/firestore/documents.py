"""How a lock looks in its collection, and the writes that change it.

The document ``lock:NAME`` is there while NAME is held, and is deleted when it is released. Its
fields are ``owner``, ``ttl`` (seconds), ``meta`` (JSON text) and ``version``. Firestore itself
keeps when it was created and last updated. A renewal writes a new ``version``, because Firestore
leaves the time of an update as it was where nothing has changed.

Beside it there may be ``memo:NAME``, with what recipes remember, and ``revoked:OWNER``, with the
reason for which a lock was taken from its owner. All of them are dead ``ttl`` seconds after their
last update, by the clock of Firestore. ``sweepAfter`` is a hint, by the clock of the client that
wrote it, when to look whether it is dead: nothing is judged by it.
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
NUMBER = "n:"  # before the name of an item that is remembered, in the name of its field
NOT_THERE = 0  # as the version that a document must have: it must not be there

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
        """Seconds until it is dead."""
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
        """What is shown of a holder."""
        age, meta = (self.read_us - self.created_us) / 1e6, str(self.fields.get("meta", "{}"))
        name = unescaped(self.id.removeprefix(LOCK)).removeprefix(prefix)
        ttl = float(self.fields["ttl"])
        return Holding(name, self.created_us, ttl, age, self.left, json.loads(meta))


class Write(NamedTuple):
    """A change of one document."""

    id: str
    fields: Fields | None  # None deletes it
    version: int | None = None  # the time of the update that it must have; None where any will do
    merge: bool = False  # whether other fields stay as they are
    raised: Fields = MappingProxyType({})  # numbers that are set unless they are as high already


def escaped(text: str) -> str:
    """A text as a part of a document's id, which has no slash; prefixes stay prefixes."""
    return text.replace("~", "~t").replace("/", "~s")


def unescaped(text: str) -> str:
    return re.sub("~[st]", lambda found: "/" if found[0] == "~s" else "~", text)


def id_of(kind: str, text: str) -> str:
    """The id of a document. With its kind in front it is none of those that are reserved."""
    return kind + escaped(text)


def next_id(start: str) -> str:
    """The first id after all that begin so; Firestore sorts them by their code points."""
    last = ord(start[-1])
    if last == 0x10FFFF:
        return next_id(start[:-1])
    return start[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


def acquired(id: str, request: Request, version: str, wall_us: int) -> Write:
    """Take a lock that nobody holds."""
    held = {"owner": request.owner, "meta": request.meta}
    return Write(id, {**held, **_lasting(request.ttl, version, wall_us)}, NOT_THERE)


def renewed(id: str, updated_us: int, ttl: float, version: str, wall_us: int) -> Write:
    """Have a lock last for a ttl from now, if it is as it was at that update."""
    return Write(id, _lasting(ttl, version, wall_us), updated_us, merge=True)


def deleted(id: str, updated_us: int | None = None) -> Write:
    """Delete a document, if it is as it was at that update."""
    return Write(id, None, updated_us)


def revoked(lock: Document, reason: str, version: str, wall_us: int) -> list[Write]:
    """Take a lock from its owner, and leave word for it while it may come and look."""
    ttl = float(lock.fields["ttl"])
    word = {"reason": reason, **_lasting(ttl, version, wall_us)}
    return [Write(id_of(REVOKED, lock.owner), word), deleted(lock.id, lock.updated_us)]


def remembered(id: str, item: str, number: int, keep: float, version: str, wall_us: int) -> Write:
    """Raise the number of an item, and how long the memo is kept."""
    fields = _lasting(keep, version, wall_us)
    raised = {"ttl": fields["ttl"], SWEEP_AFTER: fields[SWEEP_AFTER], NUMBER + item: number}
    return Write(id, {"version": version}, merge=True, raised=raised)


def numbers(memo: Document) -> dict[str, int]:
    """What is remembered in a memo."""
    found = memo.fields.items()
    return {f.removeprefix(NUMBER): int(n) for f, n in found if f.startswith(NUMBER)}


def _lasting(ttl: float, version: str, wall_us: int) -> dict[str, str | int | float]:
    return {"ttl": float(ttl), "version": version, SWEEP_AFTER: wall_us + round(ttl * 1e6)}
