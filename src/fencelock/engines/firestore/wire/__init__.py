"""Requests to Firestore over gRPC: its messages, and documents from its replies.

``_google/calls.py`` sends them, with the transport of google-cloud-firestore. Its AsyncClient would
need a second wire, and has no listener.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ....wires.grpc.status import CODES
from ....world import World
from ..._google.calls import Call, Calls
from ..._google.errors import no_answer
from ..documents import SWEEP_AFTER, Document, Write
from ..settings import Settings
from . import messages
from .errors import map_error

KEEPALIVE = ("grpc.keepalive_time_ms", 30_000)
BATCH_MAX = 500  # writes in one request


class Wire:
    """The connection of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._calls = Calls(world, "firestore", settings.shown, settings, KEEPALIVE)
        self._abandoned = list[tuple[str, Call]]()
        """Pairs of a document's id and a write to it whose caller has left before its end."""
        prefix = ("google-cloud-resource-prefix", settings.parent)
        routing = ("x-goog-request-params", f"database={settings.parent.replace('/', '%2F')}")
        owner = ("authorization", "Bearer owner")  # of an emulator, past its security rules
        self._metadata = [prefix, routing, *([owner] if settings.emulator else [])]

    async def commit(self, *writes: Write) -> int:
        """Write all of these or none; return the time. Refused where a precondition failed."""
        request = messages.commit(self._settings, writes)
        answer = await self._send("commit", request, writes[0].id)
        updated = answer.write_results[0].update_time  # a deletion has none
        return messages.microseconds(updated or answer.commit_time)

    async def write_each(self, writes: Sequence[Write]) -> list[int | Exception]:
        """Write each of these by itself; return when its document was updated, or its error."""
        done = list[int | Exception]()
        for start in range(0, len(writes), BATCH_MAX):
            request = messages.commit(self._settings, writes[start : start + BATCH_MAX])
            answer = await self._send("batch_write", request, "many")
            for result, status in zip(answer.write_results, answer.status, strict=True):
                failed = map_error(self._settings, True, CODES[int(status.code)], status.message)
                at = messages.microseconds(result.update_time)
                done.append(failed if status.code else at)
        return done

    async def read(self, *ids: str) -> list[Document | None]:
        """Read documents, strongly consistent; None where there is none."""
        answers = await self._send("batch_get_documents", messages.get(self._settings, ids))
        found = {one.id: one for one in messages.documents(self._settings, answers, "found")}
        return [found.get(id) for id in ids]

    async def ids_between(self, first: str, end: str, most: int) -> list[Document]:
        """Read documents in the order of their ids."""
        bounds = [{"reference_value": self._settings.documents + id} for id in (end, first)]
        return await self._query("__name__", most, *bounds)

    async def overdue(self, wall_us: int, most: int) -> list[Document]:
        """Read documents that may be dead by now, by ``sweepAfter``, the oldest first."""
        return await self._query(SWEEP_AFTER, most, {"integer_value": wall_us})

    async def _query(
        self, order: str, most: int, end: messages.Message, start: messages.Message | None = None
    ) -> list[Document]:
        request = messages.query(self._settings, order, most, end, start or {})
        answers = await self._send("run_query", request)
        return messages.documents(self._settings, answers, "document")

    async def server_us(self) -> int:
        """Return Firestore's time, from a read that finds nothing."""
        request = messages.get(self._settings, ["clock:"])
        answers = await self._send("batch_get_documents", request)
        return messages.microseconds(answers[0].read_time)

    def listen(self, requests: Iterator[messages.Message]) -> Any:
        """Open a stream of changes, in a thread that can wait for them."""
        return self._calls.stream(lambda one: one.listen(requests, metadata=self._metadata))

    async def _send(self, method: str, message: messages.Message, writes: str = "") -> Any:
        """Make a call; ``writes`` is the id of the document it writes. A read returns a stream."""
        settings, is_write = self._settings, bool(writes)

        def start(transport: Any) -> Any:
            stub = getattr(transport, method)
            send = stub.future if is_write else stub
            return send(message, timeout=settings.request_timeout, metadata=self._metadata)

        call = Call(start, writes=is_write, is_stream=not is_write)
        try:
            return await self._calls.make(call, partial(map_error, settings, is_write))
        finally:
            if is_write and not call.answers:
                still = [one for one in self._abandoned if not one[1].answers]
                self._abandoned = [*still, (writes, call)]

    async def settle(self, id: str) -> None:
        """Wait for the end of writes to a document whose callers have left."""
        for written, call in list(self._abandoned):
            if written == id and call.is_begun and not call.answers:
                signal = self._world.signal()
                call.when_ended.append(signal.set)
                if not call.answers:
                    until = self._world.now() + self._settings.request_timeout
                    if not await self._world.wait(signal, until):
                        raise no_answer(self._settings.shown, "in time", writes=True)

    def close(self) -> None:
        self._calls.close()
