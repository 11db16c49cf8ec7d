"""Requests and answers of Spanner's API as messages of google-cloud-spanner.

Loading this loads the package. Its messages are made and read as plain ones of protobuf: the
classes that wrap them take longer than the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import quote

from ..rows import Write
from ..settings import Settings

# By name: type checkers know other packages of the namespace, and look no further.
_ADMIN = "google.cloud.spanner_admin_database_v1"
_spanner: Any = import_module("google.cloud.spanner_v1.types")
_admin: Any = import_module(f"{_ADMIN}.types")
_admin_transports: Any = import_module(f"{_ADMIN}.services.database_admin.transports")
_STRUCT: Any = import_module("google.protobuf.struct_pb2").Struct
_TYPE: Any = _spanner.Type.pb()
_STRING: Any = {"code": _spanner.TypeCode.STRING}
_STRINGS: Any = {"code": _spanner.TypeCode.ARRAY, "array_element_type": _STRING}
_READ_WRITE: Any = {"read_write": {}}
_STRONG: Any = {"single_use": {"read_only": {"strong": True}}}


def start(transport: Any, settings: Settings, method: str, request: Mapping[str, Any]) -> Any:
    """Send a request, and return what its answer will be in."""
    make = _FIELDS.get(method, dict[str, Any])
    fields = make(**request)
    routed = next(name for name in ("session", "database", "name") if name in fields)
    metadata = (
        ("google-cloud-resource-prefix", settings.database),
        ("x-goog-request-params", f"{routed}={quote(fields[routed], safe='')}"),
        ("x-goog-spanner-route-to-leader", "true"),
    )
    types = _spanner
    if method.endswith("Ddl"):
        admin = _admin_transports.DatabaseAdminGrpcTransport
        types, transport = _admin, admin(channel=transport.grpc_channel)
    kind = getattr(types, f"{method}Request")
    stub = getattr(transport, re.sub(r"\B(?=[A-Z])", "_", method).lower())
    message = kind.wrap(kind.pb()(**fields))
    return stub.future(message, timeout=settings.request_timeout, metadata=metadata)


def read(method: str, answer: Any) -> Any:
    """Return what is wanted of an answer."""
    return _ANSWERS[method](answer) if method in _ANSWERS else None


def _execute(session: str, sql: str, begin: bool, **parameters: str | Sequence[str]) -> Any:
    kinds = {n: _STRING if isinstance(p, str) else _STRINGS for n, p in parameters.items()}
    params = _STRUCT()
    params.update(parameters)
    return {
        "session": session,
        "sql": sql,
        "params": params,
        "param_types": {name: _TYPE(**kind) for name, kind in kinds.items()},
        "transaction": {"begin": _READ_WRITE} if begin else _STRONG,
    }


def _commit(session: str, transaction_id: bytes, writes: Sequence[Write], table: str) -> Any:
    mutations = list[Any]()
    for kind, columns in writes:
        values = [{"null_value": 0} if v is None else {"string_value": v} for v in columns.values()]
        if kind == "delete":
            change: Any = {"table": table, "key_set": {"keys": [{"values": values}]}}
        else:
            change = {"table": table, "columns": list(columns), "values": [{"values": values}]}
        mutations.append({kind: change})
    return {"session": session, "transaction_id": transaction_id, "mutations": mutations}


def _rows(answer: Any) -> tuple[bytes, list[list[str | None]]]:
    """The id of the transaction that was begun, and the rows."""
    plain = _spanner.ResultSet.pb(answer)
    rows = [
        [None if value.HasField("null_value") else value.string_value for value in row.values]
        for row in plain.rows
    ]
    return plain.metadata.transaction.id, rows


def _micros(answer: Any) -> int:
    return int(_spanner.CommitResponse.pb(answer).commit_timestamp.ToMicroseconds())


_FIELDS: dict[str, Callable[..., dict[str, Any]]] = {
    "ExecuteSql": _execute,
    "Commit": _commit,
    "BeginTransaction": partial(dict[str, Any], options=_READ_WRITE),
}
_ANSWERS: dict[str, Callable[[Any], Any]] = {
    "CreateSession": lambda answer: answer.name,
    "ExecuteSql": _rows,
    "BeginTransaction": lambda answer: answer.id,
    "Commit": _micros,
    "UpdateDatabaseDdl": lambda answer: answer.error,
    "GetDatabaseDdl": lambda answer: list(answer.statements),
}
