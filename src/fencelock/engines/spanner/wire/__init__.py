"""The client of Spanner: stubs of google-cloud-spanner over one gRPC channel, in both flavors.

Not its ``Database`` and ``run_in_transaction``: those repeat what was aborted for as long as they
like, keep sessions alive and export metrics by threads of their own. A stub makes one request,
once, with a deadline. What could not be sent, and what changes nothing and was not answered, is
sent once more, over another connection if the first one was cut or silent.
"""

from __future__ import annotations

from typing import Any

from ....wires.grpc.status import CODES
from ....world import World
from ..._google.calls import Call, Calls
from ..._google.errors import Unanswered
from ..settings import Settings
from .errors import told

TRANSPORTS = "google.cloud.spanner_v1.services.spanner.transports", "SpannerGrpcTransport"


class Wire:
    """Make requests: return an answer, or raise an error of ours, Aborted or SessionMissing."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._calls = Calls(
            world,
            "spanner",
            settings.database,
            settings.emulator,
            settings.request_timeout,
            TRANSPORTS,
            [
                ("grpc.keepalive_time_ms", 120_000),
                # How long gRPC waits for a new connection.
                ("grpc.min_reconnect_backoff_ms", round(settings.connect_timeout * 1000)),
            ],
        )

    async def call(self, method: str, **request: Any) -> Any:
        """Make one request to the database."""
        try:
            return await self._call(method, request)
        except Unanswered:
            if self._calls.is_closed or self._world.now() >= self._world.limit():
                raise
        return await self._call(method, request)

    async def _call(self, method: str, request: dict[str, Any]) -> Any:
        settings = self._settings

        def start(transport: Any) -> Any:
            from . import messages  # loads the package, where that may take its time

            return messages.start(transport, settings, method, request)

        call = Call(start, writes=method == "Commit", is_stream=False)
        answer = await self._calls.make(
            call, lambda code, words: told(code, words, method, settings)
        )
        from . import messages

        found = messages.read(method, answer)
        if method == "UpdateDatabaseDdl" and found.code:  # it was accepted, and not made
            raise told(CODES[found.code], found.message, method, settings)
        return found

    def close(self) -> None:
        self._calls.close()
