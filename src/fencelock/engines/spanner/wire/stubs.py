"""Requests and answers of Spanner's API as messages of google-cloud-spanner, and their channel.

Loading this loads the package. Its messages are used as plain ones of protobuf, without the classes
that wrap them: those take longer than the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import quote

from ..rows import Write
from ..settings import Settings

HOST = "spanner.googleapis.com"
_PACKAGES = {"Spanner": "google.spanner.v1", "DatabaseAdmin": "google.spanner.admin.database.v1"}

# By name: type checkers know other packages of the namespace, and look no further.
_grpc: Any = import_module("grpc")
_auth: Any = import_module("google.auth")
_spanner: Any = import_module("google.cloud.spanner_v1.types")
_admin: Any = import_module("google.cloud.spanner_admin_database_v1.types")
_transports: Any = import_module("google.cloud.spanner_v1.services.spanner.transports")
_EMPTY: Any = import_module("google.protobuf.empty_pb2").Empty
_OPERATION: Any = import_module("google.longrunning.operations_pb2").Operation
_STRUCT: Any = import_module("google.protobuf.struct_pb2").Struct
_VALUE: Any = import_module("google.protobuf.struct_pb2").Value
_TYPE: Any = _spanner.Type.pb()
_STRING: Any = {"code": _spanner.TypeCode.STRING}
_STRINGS: Any = {"code": _spanner.TypeCode.ARRAY, "array_element_type": _STRING}
_READ_WRITE: Any = {"read_write": {}}
_STRONG: Any = {"single_use": {"read_only": {"strong": True}}}

# The service, the message of a request, and that of an answer.
_METHODS: dict[str, tuple[str, Any, Any]] = {
    "CreateSession": ("Spanner", _spanner.CreateSessionRequest.pb(), _spanner.Session.pb()),
    "DeleteSession": ("Spanner", _spanner.DeleteSessionRequest.pb(), _EMPTY),
    "ExecuteSql": ("Spanner", _spanner.ExecuteSqlRequest.pb(), _spanner.ResultSet.pb()),
    "BeginTransaction": (
        "Spanner",
        _spanner.BeginTransactionRequest.pb(),
        _spanner.Transaction.pb(),
    ),
    "Commit": ("Spanner", _spanner.CommitRequest.pb(), _spanner.CommitResponse.pb()),
    "Rollback": ("Spanner", _spanner.RollbackRequest.pb(), _EMPTY),
    "UpdateDatabaseDdl": (
        "DatabaseAdmin",
        _admin.UpdateDatabaseDdlRequest.pb(),
        _OPERATION,
    ),
    "GetDatabaseDdl": (
        "DatabaseAdmin",
        _admin.GetDatabaseDdlRequest.pb(),
        _admin.GetDatabaseDdlResponse.pb(),
    ),
}


class OperationFailed(Exception):
    """A change of the schema was accepted and not made."""


class Stubs:
    """One channel, and a stub for each method."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = _transports.SpannerGrpcTransport
        self._credentials: Any = None
        if not settings.emulator:
            self._credentials, _ = _auth.default(scopes=self._transport.AUTH_SCOPES)
        self.connect()

    def connect(self) -> None:
        """Have the next request make a connection. What is under way ends on the one before."""
        settings = self._settings
        # A commit that is repeated behind our back would be refused by its own success.
        options = [
            ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.keepalive_time_ms", 120_000),
            ("grpc.min_reconnect_backoff_ms", round(settings.connect_timeout * 1000)),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 200),
        ]
        if settings.emulator:
            direct = [*options, ("grpc.enable_http_proxy", 0)]
            self._channel: Any = _grpc.insecure_channel(settings.emulator, options=direct)
        else:
            self._channel = self._transport.create_channel(
                HOST, credentials=self._credentials, options=options
            )
        self._stubs = {
            method: self._channel.unary_unary(
                f"/{_PACKAGES[service]}.{service}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
            )
            for method, (service, request, answer) in _METHODS.items()
        }

    def begin(self, method: str, request: Mapping[str, Any], seconds: float) -> Any:
        """Send a request, and return what its answer will be in."""
        make: Callable[..., Mapping[str, Any]] = _FIELDS.get(method, _plain)
        fields = make(**request)
        routed = next(name for name in ("session", "database", "name") if name in fields)
        metadata = (
            ("google-cloud-resource-prefix", self._settings.database),
            ("x-goog-request-params", f"{routed}={quote(fields[routed], safe='')}"),
            ("x-goog-spanner-route-to-leader", "true"),
        )
        message = _METHODS[method][1](**fields)
        return self._stubs[method].future(message, timeout=seconds, metadata=metadata)

    def read(self, method: str, answer: Any) -> Any:
        """Return what is wanted of an answer."""
        wanted: Callable[[Any], Any] = _ANSWERS.get(method, _nothing)
        return wanted(answer)

    def close(self) -> None:
        self._channel.close()


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


def _commit(session: str, transaction: bytes, writes: Sequence[Write], table: str) -> Any:
    mutations = list[Any]()
    for kind, columns in writes:
        if kind == "delete":
            keys = {"keys": [_list(columns.values())]}
            mutations.append({kind: {"table": table, "key_set": keys}})
        else:
            row = {"table": table, "columns": list(columns), "values": [_list(columns.values())]}
            mutations.append({kind: row})
    return {"session": session, "transaction_id": transaction, "mutations": mutations}


def _plain(**fields: Any) -> dict[str, Any]:
    return fields


def _begin(session: str) -> dict[str, Any]:
    return {"session": session, "options": _READ_WRITE}


def _rollback(session: str, transaction: bytes) -> dict[str, Any]:
    return {"session": session, "transaction_id": transaction}


def _rows(answer: Any) -> tuple[bytes, list[list[str | None]]]:
    """The id of the transaction that was begun, and the rows."""
    rows = [
        [None if value.HasField("null_value") else value.string_value for value in row.values]
        for row in answer.rows
    ]
    return answer.metadata.transaction.id, rows


def _operation(answer: Any) -> None:
    if answer.HasField("error"):
        raise OperationFailed(answer.error.message)


def _nothing(_: Any) -> None:
    return None


def _list(values: Any) -> Any:
    return {
        "values": [_VALUE(null_value=0) if v is None else _VALUE(string_value=v) for v in values]
    }


_FIELDS: dict[str, Callable[..., dict[str, Any]]] = {
    "ExecuteSql": _execute,
    "Commit": _commit,
    "BeginTransaction": _begin,
    "Rollback": _rollback,
}
_ANSWERS: dict[str, Callable[[Any], Any]] = {
    "CreateSession": lambda answer: answer.name,
    "ExecuteSql": _rows,
    "BeginTransaction": lambda answer: answer.id,
    "Commit": lambda answer: answer.commit_timestamp.ToMicroseconds(),
    "UpdateDatabaseDdl": _operation,
    "GetDatabaseDdl": lambda answer: list(answer.statements),
}
