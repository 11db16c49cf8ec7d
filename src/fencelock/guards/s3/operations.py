"""The operations of the S3 guard as generators of requests, for both flavors.

Each write is a loop: read the mark, compare, and write on condition that the object is still the
one that was read. If it is not, another client has written in between: read again. So two clients
that read at the same moment can never both pass, whichever of them is the older.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ...errors import Misconfigured
from ..aws import answer_of, code_of
from ..fence import MARK_DIGITS, Claim, MarkPair, crowded_out

_DATA, _GONE = b"fencelock-mark:", b"fencelock-gone:"

SIZE = len(_DATA) + MARK_DIGITS + 1
"""The number of bytes before the data."""


class Envelope(NamedTuple):
    """A mark and the data; None if there is no data or it was deleted.

    Why not in the object's metadata? A conditional write names the ETag of what it replaces, and
    the ETag is made from the content alone. A mark in the metadata could be raised, or written with
    the same data, without a change of the ETag; an older writer that has read before would then
    pass.

    The line always has the same length, so that a reader can request the range behind it.
    """

    mark: int
    data: bytes | None


def wrap(mark: int, data: bytes | None) -> bytes:
    """Return the body to store for this data; None marks it as deleted."""
    kind = _GONE if data is None else _DATA
    return kind + f"{mark:0{MARK_DIGITS}d}\n".encode() + (data or b"")


def unwrap(body: bytes) -> Envelope:
    """Parse a stored body. One that no guard has written has no mark and is all data."""
    head, kind, digits = body[:SIZE], body[: len(_DATA)], body[len(_DATA) : SIZE - 1]
    ours = len(head) == SIZE and head.endswith(b"\n") and digits.isdigit()
    if ours and kind == _GONE:
        return Envelope(int(digits), None)
    if ours and kind == _DATA:
        return Envelope(int(digits), body[SIZE:])
    return Envelope(0, body)


T = TypeVar("T")

READERS = "fencelock-readers"
ATTEMPTS_MAX = 100  # each that fails is another's success
PAUSE_MAX_S = 0.2

_MISSING = {"NoSuchKey", "404"}
_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_KEPT = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Metadata",
)


class Call(NamedTuple):
    """A method of the client, and its arguments. Its runner reads the body of the response."""

    method: str
    request: dict[str, Any]


class Pause(NamedTuple):
    seconds: float


Steps: TypeAlias = Generator[Call | Pause, Any, T]


class Seen(NamedTuple):
    """An object, as read; without a tag if it does not exist.

    While a reader has the highest mark, that of the writers is in the metadata, with the mark to
    which it belongs: a program that knows no readers keeps the metadata when it raises the mark.
    Metadata suffice here: a reader that changes them changes the mark in the content, too.
    """

    envelope: Envelope
    tag: str | None = None
    kept: Mapping[str, Any] = {}
    readers: str = ""

    @property
    def marks(self) -> MarkPair:
        mark, _, written = self.readers.partition("-")
        told = mark.isdigit() and int(mark) == self.envelope.mark and written.isdigit()
        return MarkPair(self.envelope.mark, int(written) if told else self.envelope.mark)


def look(key: str, *, whole: bool) -> Steps[Seen]:
    """Read an object, or only the line with its mark."""
    part = {} if whole else {"Range": f"bytes=0-{SIZE - 1}"}
    try:
        found = yield Call("get_object", {"Key": key, **part})
    except Exception as error:
        if code_of(error) in _MISSING:
            return Seen(Envelope(0, None))
        if code_of(error) == "InvalidRange":  # it exists, and is empty
            return (yield from look(key, whole=True))
        raise
    kept = {name: found[name] for name in _KEPT if found.get(name)}
    metadata = dict(kept.pop("Metadata", {}))
    readers = str(metadata.pop(READERS, ""))
    if metadata:
        kept["Metadata"] = metadata
    return Seen(unwrap(found["Body"]), found["ETag"], kept, readers)


def enter(key: str, wanted: Claim) -> Steps[bytes | None]:
    for attempt in range(ATTEMPTS_MAX):
        seen = yield from look(key, whole=True)
        marks = seen.marks.admit(wanted)
        if marks == seen.marks:
            return seen.envelope.data  # the mark is ours already
        body = wrap(marks.highest, seen.envelope.data)
        if (yield from _replace(key, body, seen, _kept(seen, marks))):
            return seen.envelope.data
        yield _pause(attempt)
    raise crowded_out("object", wanted.name, ATTEMPTS_MAX)


def put(key: str, data: bytes | None, wanted: Claim, more: Mapping[str, Any]) -> Steps[None]:
    for attempt in range(ATTEMPTS_MAX):
        seen = yield from look(key, whole=False)
        seen.marks.admit(wanted)
        if (yield from _replace(key, wrap(wanted.mark, data), seen, dict(more))):
            return
        yield _pause(attempt)
    raise crowded_out("object", wanted.name, ATTEMPTS_MAX)


def reset(key: str, mark: int) -> Steps[None]:
    for attempt in range(ATTEMPTS_MAX):
        seen = yield from look(key, whole=True)
        if seen.tag is None and not mark:
            return
        body = wrap(mark, seen.envelope.data)
        if (yield from _replace(key, body, seen, dict(seen.kept))):
            return
        yield _pause(attempt)
    raise crowded_out("object", key, ATTEMPTS_MAX)


def forget(prefix: str, before: float) -> Steps[int]:
    """Remove the objects that a guard deleted before that time; return how many."""
    count, more = 0, {"Prefix": prefix}
    while True:
        page = yield Call("list_objects_v2", more)
        for entry in page.get("Contents", []):
            if entry["Size"] == SIZE and entry["LastModified"].timestamp() < before:
                count += yield from _remove(entry["Key"])
        if not page.get("IsTruncated"):
            return count
        more = {"Prefix": prefix, "ContinuationToken": page["NextContinuationToken"]}


def probe(key: str) -> Steps[None]:
    """Raise Misconfigured if the store executes a request whose condition does not hold."""
    old = yield Call("put_object", {"Key": key, "Body": b"1"})
    new = yield Call("put_object", {"Key": key, "Body": b"2", "IfMatch": old["ETag"]})
    same, later = {"Key": key, "IfMatch": old["ETag"]}, {"Key": key, "IfNoneMatch": "*"}
    ignored: list[str] = []
    for what, call in (
        ("If-Match of a write", Call("put_object", {**same, "Body": b"2"})),
        ("If-None-Match of a write", Call("put_object", {**later, "Body": b"2"})),
        ("If-Match of a deletion", Call("delete_object", same)),
    ):
        if (yield from _passes(call)):
            ignored.append(what)
    yield Call("delete_object", {"Key": key})
    if old["ETag"] == new["ETag"]:
        ignored.append("the content in its ETags")
    if ignored:
        raise Misconfigured(
            f"this store ignores {' and '.join(ignored)}: no guard can work on it. Use one that "
            "has conditional writes, as S3 has"
        )


def _passes(call: Call) -> Steps[bool]:
    """Send a conditional request; return whether its condition held."""
    try:
        yield call
    except Exception as error:
        if _is_changed(error):
            return False
        raise
    return True


def _kept(seen: Seen, marks: MarkPair) -> dict[str, Any]:
    """Return the headers that a rewrite keeps, with the writers' mark if that is below."""
    if marks.written == marks.highest:
        return dict(seen.kept)
    readers = {READERS: f"{marks.highest}-{marks.written}"}
    return {**seen.kept, "Metadata": {**seen.kept.get("Metadata", {}), **readers}}


def _replace(key: str, body: bytes, seen: Seen, more: dict[str, Any]) -> Steps[bool]:
    """Write the object if it has not changed since it was read; return whether it was written."""
    condition = {"IfNoneMatch": "*"} if seen.tag is None else {"IfMatch": seen.tag}
    call = Call("put_object", {**more, "Key": key, "Body": body, **condition})
    return (yield from _passes(call))


def _remove(key: str) -> Steps[bool]:
    seen = yield from look(key, whole=True)
    if seen.tag is None or seen.envelope.data is not None:
        return False
    return (yield from _passes(Call("delete_object", {"Key": key, "IfMatch": seen.tag})))


def _is_changed(error: Exception) -> bool:
    status = answer_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return code_of(error) in _CHANGED | _MISSING or status in {409, 412}


def _pause(attempt: int) -> Pause:
    """Return the back-off before the next read: exponential, with jitter."""
    return Pause(random.uniform(0, min(PAUSE_MAX_S, 0.005 * 2**attempt)))


def old(seconds: float) -> float:
    """Return the wall-clock time that many seconds ago."""
    return time.time() - seconds
