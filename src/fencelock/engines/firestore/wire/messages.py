"""Firestore's messages: what is asked for as the dictionaries that its client takes, and answers.

Times are microseconds here, and Firestore's are as exact.
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
    """For Commit, which does all of them or none, and BatchWrite, which does each by itself."""
    return {"database": settings.parent, "writes": [_write(settings, one) for one in writes]}


def get(settings: Settings, ids: Sequence[str]) -> Message:
    """For BatchGetDocuments: read these as the last write has left them."""
    return {"database": settings.parent, "documents": [settings.documents + id for id in ids]}


def query(settings: Settings, order: str, most: int, end: Message, start: Message) -> Message:
    """For RunQuery: read documents in the order of a field, up to a value of it, and from one."""
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
    """For Listen: tell of each change of a document."""
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
    """A field's name in a path, where only simple ones can stand as they are."""
    return "`" + field.replace("\\", "\\\\").replace("`", "\\`") + "`"


def microseconds(time: datetime | None) -> int:
    return 0 if time is None else (time - EPOCH) // MICROSECOND


def documents(settings: Settings, answers: Sequence[Any], part: str) -> list[Document]:
    """Read the documents of a stream's answers, each with the time at which it was read."""
    found = [(getattr(one, part), one.read_time) for one in answers if part in one]
    return [_document(settings, one, microseconds(read_at)) for one, read_at in found]


def _document(settings: Settings, found: Any, read_us: int) -> Document:
    """Read a document, which may be another program's: of its fields those we could have made."""
    pb: Any = cast("Any", type(found)).pb(found)
    kinds = {field: value.WhichOneof("value_type") for field, value in pb.fields.items()}
    fields = {f: getattr(pb.fields[f], one) for f, one in kinds.items() if one in KINDS.values()}
    times = pb.create_time.ToMicroseconds(), pb.update_time.ToMicroseconds()
    return Document(pb.name.removeprefix(settings.documents), fields, *times, read_us)
