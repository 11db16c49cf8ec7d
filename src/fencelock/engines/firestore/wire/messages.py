"""Firestore's messages: requests as the dictionaries that its client takes, and decoded replies.

Times are microseconds here, the resolution of Firestore's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

from ..documents import NOT_THERE, Document, Write
from ..settings import Settings

EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)
KINDS = {str: "string_value", int: "integer_value", float: "double_value"}

Message: TypeAlias = dict[str, Any]


def commit(settings: Settings, writes: Sequence[Write]) -> Message:
    """Return the request of Commit (all writes or none) or BatchWrite (each write by itself)."""
    return {"database": settings.parent, "writes": [_write(settings, one) for one in writes]}


def get(settings: Settings, ids: Sequence[str]) -> Message:
    """Return the request of BatchGetDocuments, a strongly consistent read."""
    return {"database": settings.parent, "documents": [settings.documents + id for id in ids]}


def query(settings: Settings, order: str, most: int, end: Message, start: Message) -> Message:
    """Return the request of RunQuery: documents by a field, from ``start`` to before ``end``."""
    parent, _, collection = settings.documents.removesuffix("/").rpartition("/")
    query = {
        "from_": [{"collection_id": collection}],
        "order_by": [{"field": {"field_path": order}, "direction": "ASCENDING"}],
        "start_at": {"values": [start], "before": True} if start else None,
        "end_at": {"values": [end], "before": True},
        "limit": {"value": most},
    }
    return {"parent": parent, "structured_query": query}


def target(settings: Settings, id: str, number: int) -> Message:
    """Return the request of Listen that adds a document as a target."""
    added = {"documents": {"documents": [settings.documents + id]}, "target_id": number}
    return {"database": settings.parent, "add_target": added}


def _write(settings: Settings, write: Write) -> Message:
    name = settings.documents + write.id
    change: Message = {"delete": name}
    if write.fields is not None:
        fields = {field: _value(value) for field, value in write.fields.items()}
        change = {"update": {"name": name, "fields": fields}}
    if write.merge:
        change["update_mask"] = {"field_paths": list(write.fields or ())}
    if write.raised:
        change["update_transforms"] = [
            {"field_path": _quoted(field), "maximum": _value(value)}
            for field, value in write.raised.items()
        ]
    if write.version == NOT_THERE:
        change["current_document"] = {"exists": False}
    elif write.version is not None:
        change["current_document"] = {"update_time": EPOCH + write.version * MICROSECOND}
    return change


def _value(value: str | int | float) -> Message:
    return {KINDS[type(value)]: value}


def _quoted(field: str) -> str:
    """Quote a field's name for a field path, where only simple names can be unquoted."""
    return "`" + field.replace("\\", "\\\\").replace("`", "\\`") + "`"


def microseconds(time: datetime | None) -> int:
    return 0 if time is None else (time - EPOCH) // MICROSECOND


def documents(settings: Settings, answers: Sequence[Any], part: str) -> list[Document]:
    """Decode the documents of a stream's replies, each with the time at which it was read."""
    found = [(getattr(one, part), one.read_time) for one in answers if part in one]
    return [_document(settings, one, microseconds(read_at)) for one, read_at in found]


def _document(settings: Settings, found: Any, read_us: int) -> Document:
    """Decode a document, which may be another program's: only fields of types that we write."""
    pb: Any = cast("Any", type(found)).pb(found)
    kinds = {field: value.WhichOneof("value_type") for field, value in pb.fields.items()}
    fields = {f: getattr(pb.fields[f], one) for f, one in kinds.items() if one in KINDS.values()}
    times = pb.create_time.ToMicroseconds(), pb.update_time.ToMicroseconds()
    return Document(pb.name.removeprefix(settings.documents), fields, *times, read_us)
