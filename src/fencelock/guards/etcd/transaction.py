"""Build a guarded etcd transaction and check its reply, without sending it.

    request = guarded([put("config/a", b"1")], claim(lease))
    request.json()          # the body of a POST to /v3/kv/txn, etcd's JSON gateway
    bytes(request)          # an etcdserverpb.TxnRequest, for any stubs of gRPC
    request.judge(reply)    # the answers to the operations, or StaleFence

The mark of a name is a key of its own. Its value begins with the mark in nineteen digits, so that
etcd, which compares values as bytes, compares them as numbers. "Not higher than ours" is "less than
ours plus one". That comparison fails for a key that does not exist: so a second, nested transaction
checks for that. It is one request, and etcd executes it atomically.

While a reader has the highest mark, that of the writers is at the end of the value, where etcd
cannot compare it: a reader reads the key first, and its transaction requires that the key has not
changed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ...errors import EngineError, UsageError
from ..fence import MARK_DIGITS, Claim, MarkPair

__all__ = ["PREFIX", "Guarded", "Operation", "delete", "get", "guarded", "put"]

PREFIX = "fencelock/marks/"

PAGE = 500  # marks read by one request of ``forget``
Json: TypeAlias = Mapping[str, Any]

_FIELDS: dict[str, int] = {"get": 1, "put": 2, "delete": 3}  # of an etcdserverpb.RequestOp
_NAMES: dict[str, str] = {"get": "range", "put": "put", "delete": "delete_range"}
_TXN, _LESS, _EQUAL, _VALUE, _CREATE = 4, 2, 0, 3, 1


class Operation(NamedTuple):
    """One operation of a transaction on one key. ``lease`` is the id of etcd's, for a put."""

    kind: Literal["get", "put", "delete"]
    key: bytes
    value: bytes = b""
    lease: int = 0

    def json(self) -> dict[str, Any]:
        request: dict[str, Any] = {"key": _text(self.key)}
        if self.kind == "put":
            request["value"] = _text(self.value)
            if self.lease:
                request["lease"] = str(self.lease)
        return {f"request_{_NAMES[self.kind]}": request}

    def __bytes__(self) -> bytes:
        body = _field(1, self.key)
        if self.kind == "put":
            body += _field(2, self.value) + _number(3, self.lease)
        return _field(_FIELDS[self.kind], body)


def put(key: str | bytes, value: str | bytes, *, lease: int = 0) -> Operation:
    """Write a key; with the id of an etcd lease, for as long as that lives."""
    return Operation("put", _raw(key), _raw(value), lease)


def get(key: str | bytes) -> Operation:
    """Read a key."""
    return Operation("get", _raw(key))


def delete(key: str | bytes) -> Operation:
    """Delete a key."""
    return Operation("delete", _raw(key))


class Guarded(NamedTuple):
    """Operations that etcd executes only if the claim is not below the mark."""

    claim: Claim
    key: bytes
    stamp: int
    operations: tuple[Operation, ...]

    def json(self) -> dict[str, Any]:
        """Make the body of a POST to ``/v3/kv/txn``."""
        done = [operation.json() for operation in self._done()]
        key = _text(self.key)
        absent = {"result": "EQUAL", "target": "CREATE", "key": key, "create_revision": "0"}
        nested = {"compare": [absent], "success": done, "failure": [get(self.key).json()]}
        older = {"result": "LESS", "target": "VALUE", "key": key, "value": _text(self._bound)}
        return {"compare": [older], "success": done, "failure": [{"request_txn": nested}]}

    def __bytes__(self) -> bytes:
        key = _field(3, self.key)
        done = b"".join(_field(2, bytes(operation)) for operation in self._done())
        # A oneof field is encoded even if it is 0: it says which of the fields was chosen.
        absent = _number(1, _EQUAL) + _number(2, _CREATE) + key + b"\x28\x00"
        nested = _field(1, absent) + done + _field(3, bytes(get(self.key)))
        older = _number(1, _LESS) + _number(2, _VALUE) + key + _field(7, self._bound)
        return _field(1, older) + done + _field(3, _field(_TXN, nested))

    def judge(self, reply: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the responses to the operations in order, or raise StaleFence.

        ``reply`` is the JSON gateway's. For stubs, pass ``MessageToDict(reply,
        preserving_proto_field_name=True)``, which has the same form.
        """
        if not reply.get("succeeded"):
            reply = reply["responses"][0]["response_txn"]
        responses: Sequence[Mapping[str, Any]] = reply.get("responses", [])
        if reply.get("succeeded"):
            return responses[1:]
        read_marks(next(values(responses))).admit(self.claim)
        raise EngineError("etcd refused a fence that is not below its mark; nothing was done")

    def _done(self) -> Iterator[Operation]:
        yield put(self.key, f"{written(self.claim.mark)} {self.stamp}")
        yield from self.operations

    @property
    def _bound(self) -> bytes:
        return written(self.claim.mark + 1).encode()


def guarded(
    operations: Iterable[Operation], claim: Claim, *, prefix: str = PREFIX, stamp: int = 0
) -> Guarded:
    """Build a transaction that raises the mark of a name and runs the operations, or neither.

    ``stamp`` is the wall clock in seconds, stored with the mark for ``forget``. A reader must read
    the mark first, so its claim raises UsageError.
    """
    if claim.reading:
        raise UsageError(
            "a reader cannot be judged by one transaction alone: let EtcdGuard send it, which "
            "looks at the mark before"
        )
    return Guarded(claim, mark_key(prefix, claim.name), stamp, tuple(operations))


def mark_key(prefix: str, name: str) -> bytes:
    """Return the key that holds the mark of a name."""
    try:
        return (prefix + name).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"what is guarded has a name of valid Unicode, not {name!r}") from error


def written(mark: int) -> str:
    """Format a mark as text that sorts like its number."""
    return f"{mark:0{MARK_DIGITS}d}"


def read_marks(value: bytes | None) -> MarkPair:
    """Parse the value of a mark's key: the highest, its stamp, and the writers' if below."""
    if value is None:
        return MarkPair()
    highest, *more = value.split() or [b""]
    written = more[1] if len(more) > 1 else highest
    if any(len(digits) != MARK_DIGITS or not digits.isdigit() for digits in (highest, written)):
        raise EngineError(
            f"the key of the mark holds {value!r}, which no guard wrote; nothing was done: remove "
            "that key, or give the guard a prefix of its own"
        )
    return MarkPair(int(highest), int(written))


def values(responses: Iterable[Mapping[str, Any]]) -> Iterator[bytes | None]:
    """Yield the value, or None, that each range among the responses has read."""
    for response in responses:
        if "response_range" in response:
            found = response["response_range"].get("kvs", [])
            yield b64decode(found[0].get("value", "")) if found else None


def look(key: bytes) -> Json:
    """Make the body of a POST to ``/v3/kv/range`` that reads one mark."""
    return {"key": _text(key)}


def seen(reply: Json) -> MarkPair:
    """Read the marks in the reply to ``look``."""
    return read_marks(next(values([{"response_range": reply}])))


def read_only(
    operations: Iterable[Operation], key: bytes, claim: Claim, stamp: int, looked: Json
) -> Json:
    """Make a reader's transaction, on condition that the mark is the one in the reply to ``look``.

    Or raise StaleFence. The mark is written only if the reader raises it.
    """
    if any(operation.kind != "get" for operation in operations):
        claim.to_write()
    marks = seen(looked)
    after = marks.admit(claim)
    same: dict[str, Any] = {"result": "EQUAL", "target": "MOD", "key": _text(key)}
    same["mod_revision"] = looked["kvs"][0]["mod_revision"] if looked.get("kvs") else "0"
    done = [operation.json() for operation in operations]
    if after != marks:
        value = f"{written(after.highest)} {stamp} {written(after.written)}"
        done.append(put(key, value).json())
    return {"compare": [same], "success": done}


def setting(key: bytes, mark: int, stamp: int) -> Json:
    """Make a transaction that sets a mark whatever it was; 0 removes it."""
    value = f"{written(mark)} {stamp}"
    return {"success": [(put(key, value) if mark else delete(key)).json()]}


def page(prefix: str, last: Sequence[Json] = ()) -> Json:
    """Make the body of a POST to ``/v3/kv/range`` that reads the marks after the last page."""
    first = prefix.encode()
    return {
        "key": _text(b64decode(last[-1]["key"]) + b"\0" if last else first),
        "range_end": _text(first[:-1] + bytes([first[-1] + 1])),  # UTF-8 never ends with 255
        "limit": str(PAGE),
    }


def is_last(found: Sequence[Json]) -> bool:
    return len(found) < PAGE


def removals(found: Sequence[Json], before: float) -> Iterator[Json]:
    """Yield, for each mark with an older stamp, a transaction that deletes it if unchanged."""
    for each in found:
        stamp = b64decode(each.get("value", "")).partition(b" ")[2].partition(b" ")[0]
        if stamp.isdigit() and int(stamp) < before:
            key, revision = each["key"], each["mod_revision"]
            same = {"result": "EQUAL", "target": "MOD", "key": key, "mod_revision": revision}
            yield {"compare": [same], "success": [delete(b64decode(key)).json()]}


def _raw(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


def _field(number: int, body: bytes) -> bytes:
    """Encode a length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _number(number: int, value: int) -> bytes:
    """Encode a field with an integer; the default, 0, is not encoded."""
    return _varint(number << 3) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
