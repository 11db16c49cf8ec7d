"""Requests to Spanner: stubs of google-cloud-spanner over one gRPC channel, in both flavors.

Not its ``Database`` and ``run_in_transaction``: those retry aborted transactions for as long as
they like, and keep sessions alive and export metrics by threads of their own. A stub makes one
request, once, with a deadline. A request that could not be sent, or that changes nothing and had no
reply, is sent once more, over another connection if the first one was cut or silent.

Messages are encoded and decoded as plain protobuf messages: the package's wrapper classes take
longer than the request. The first request of all, for a session, loads the package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, cast
from urllib.parse import quote

from ....wires.grpc.status import CODES
from ....world import World
from ..._google.calls import Call, Calls
from ..._google.errors import Unanswered
from ..rows import Values, Write
from ..settings import Settings
from .errors import Aborted, map_error

PACKAGE, ADMIN = "google.cloud.spanner_v1", "google.cloud.spanner_admin_database_v1"
KEEPALIVE = ("grpc.keepalive_time_ms", 120_000)
READ_WRITE: Any = {"read_write": {}}
STRONG: Any = {"single_use": {"read_only": {"strong": True}}}


class Wire:
    """The requests of one client. Besides errors of ours they raise Aborted and SessionMissing."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        # How long gRPC waits for a new connection.
        connect = ("grpc.min_reconnect_backoff_ms", round(settings.connect_timeout * 1000))
        self._calls = Calls(world, "spanner", settings.database, settings, KEEPALIVE, connect)

    async def create_session(self) -> str:
        return str((await self.call("CreateSession", database=self._settings.database)).name)

    async def delete_session(self, session: str) -> None:
        await self.call("DeleteSession", name=session)

    async def execute(
        self, session: str, sql: str, begin: bool, **parameters: str | Sequence[str]
    ) -> tuple[bytes, list[Values]]:
        """Run a statement; return the id of the transaction that it began, if any, and the rows."""
        types: Any = import_module(f"{PACKAGE}.types")
        text = types.Type.pb()(code="STRING")
        texts = types.Type.pb()(code="ARRAY", array_element_type=text)
        params = import_module("google.protobuf.struct_pb2").Struct()
        params.update(parameters)
        answer = await self.call(
            "ExecuteSql",
            session=session,
            sql=sql,
            params=params,
            param_types={n: text if isinstance(p, str) else texts for n, p in parameters.items()},
            transaction={"begin": READ_WRITE} if begin else STRONG,
        )
        rows = [
            [None if value.HasField("null_value") else value.string_value for value in row.values]
            for row in answer.rows
        ]
        return answer.metadata.transaction.id, rows

    async def commit(self, session: str, transaction: bytes, writes: Sequence[Write]) -> int:
        """Commit these mutations; return the commit timestamp in microseconds."""
        values: Any = import_module("google.protobuf.struct_pb2").ListValue
        table, mutations = self._settings.table, list[Any]()
        for kind, columns in writes:
            row = values()
            row.extend(columns.values())
            if kind == "delete":
                mutations.append({kind: {"table": table, "key_set": {"keys": [row]}}})
            else:
                change = {"table": table, "columns": list(columns), "values": [row]}
                mutations.append({kind: change})
        answer = await self.call(
            "Commit", session=session, transaction_id=transaction, mutations=mutations
        )
        return int(answer.commit_timestamp.ToMicroseconds())

    async def rollback(self, session: str, transaction: bytes) -> None:
        await self.call("Rollback", session=session, transaction_id=transaction)

    async def reset(self, session: str) -> None:
        """Invalidate the transaction of a session by another one, and delete the session."""
        newer = await self.call("BeginTransaction", session=session, options=READ_WRITE)
        try:
            await self.rollback(session, newer.id)
        except Aborted:
            pass  # a delayed request has begun another one, which ends with the session
        await self.delete_session(session)

    async def change_ddl(self, statement: str) -> None:
        method, database = "UpdateDatabaseDdl", self._settings.database
        error = (await self.call(method, database=database, statements=[statement])).error
        if error.code:  # the change was accepted, and not made
            raise map_error(self._settings, method, CODES[int(error.code)], error.message)

    async def ddl(self) -> list[str]:
        return list(
            (await self.call("GetDatabaseDdl", database=self._settings.database)).statements
        )

    async def call(self, method: str, **fields: Any) -> Any:
        """Make one request and return its reply; send it once more where that is safe."""
        try:
            return await self._call(method, fields)
        except Unanswered:
            if self._calls.is_closed or self._world.now() >= self._world.limit():
                raise
        return await self._call(method, fields)

    async def _call(self, method: str, fields: dict[str, Any]) -> Any:
        call = Call(partial(self._start, method, fields), writes=method == "Commit")
        answer = await self._calls.make(call, partial(map_error, self._settings, method))
        kind = cast("Any", type(answer))
        return kind.pb(answer) if hasattr(kind, "pb") else answer  # some replies are plain already

    def _start(self, method: str, fields: dict[str, Any], transport: Any) -> Any:
        package, database = PACKAGE, self._settings.database
        if method.endswith("Ddl"):
            package, admin = ADMIN, import_module(f"{ADMIN}.services.database_admin.transports")
            transport = admin.DatabaseAdminGrpcTransport(channel=transport.grpc_channel)
        routed = next(name for name in ("session", "database", "name") if name in fields)
        metadata = (
            ("google-cloud-resource-prefix", database),
            ("x-goog-request-params", f"{routed}={quote(fields[routed], safe='')}"),
            ("x-goog-spanner-route-to-leader", "true"),
        )
        kind = getattr(import_module(f"{package}.types"), f"{method}Request")
        stub = getattr(transport, re.sub(r"\B(?=[A-Z])", "_", method).lower())
        message = kind.wrap(kind.pb()(**fields))
        return stub.future(message, timeout=self._settings.request_timeout, metadata=metadata)

    def close(self) -> None:
        self._calls.close()
