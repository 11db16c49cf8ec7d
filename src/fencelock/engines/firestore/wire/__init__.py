"""Requests to Firestore over gRPC: its messages, and documents from its answers.

``_google/calls.py`` makes them, with the transport of google-cloud-firestore. Its AsyncClient would
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
from .errors import told

KEEPALIVE = ("grpc.keepalive_time_ms", 30_000)
BATCH_MAX = 500  # writes in one request


class Wire:
    """The connection of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._calls = Calls(world, "firestore", settings.shown, settings, KEEPALIVE)
        self._left = list[tuple[str, Call]]()
        """By document, the writes that nobody waits for any more, and that may not have ended."""
        prefix = ("google-cloud-resource-prefix", settings.parent)
        routing = ("x-goog-request-params", f"database={settings.parent.replace('/', '%2F')}")
        owner = ("authorization", "Bearer owner")  # of an emulator, past its security rules
        self._metadata = [prefix, routing, *([owner] if settings.emulator else [])]

    async def commit(self, *writes: Write) -> int:
        """Write all of these or none: when it was done. Refused where a precondition failed."""
        request = messages.commit(self._settings, writes)
        answer = await self._send("commit", request, writes[0].id)
        updated = answer.write_results[0].update_time  # none of what was deleted
        return messages.microseconds(updated or answer.commit_time)

    async def write_each(self, writes: Sequence[Write]) -> list[int | Exception]:
        """Write each of these by itself: when its document was updated, or why it was not."""
        done = list[int | Exception]()
        for start in range(0, len(writes), BATCH_MAX):
            request = messages.commit(self._settings, writes[start : start + BATCH_MAX])
            answer = await self._send("batch_write", request, "many")
            for result, status in zip(answer.write_results, answer.status, strict=True):
                failed = told(self._settings, True, CODES[int(status.code)], status.message)
                at = messages.microseconds(result.update_time)
                done.append(failed if status.code else at)
        return done

    async def read(self, *ids: str) -> list[Document | None]:
        """Read documents as the last writes have left them; None where there is none."""
        answers = await self._send("batch_get_documents", messages.get(self._settings, ids))
        found = {one.id: one for one in messages.documents(self._settings, answers, "found")}
        return [found.get(id) for id in ids]

    async def ids_between(self, first: str, end: str, most: int) -> list[Document]:
        """Read documents in the order of their ids."""
        bounds = [{"reference_value": self._settings.documents + id} for id in (end, first)]
        return await self._query("__name__", most, *bounds)

    async def overdue(self, wall_us: int, most: int) -> list[Document]:
        """Read documents that may be dead by now, those first that are so longest."""
        return await self._query(SWEEP_AFTER, most, {"integer_value": wall_us})

    async def _query(
        self, order: str, most: int, end: messages.Message, start: messages.Message | None = None
    ) -> list[Document]:
        request = messages.query(self._settings, order, most, end, start or {})
        answers = await self._send("run_query", request)
        return messages.documents(self._settings, answers, "document")

    async def server_us(self) -> int:
        """Firestore's time, of a read that finds nothing."""
        request = messages.get(self._settings, ["clock:"])
        answers = await self._send("batch_get_documents", request)
        return messages.microseconds(answers[0].read_time)

    def listen(self, requests: Iterator[messages.Message]) -> Any:
        """Open a stream of changes, in a thread that can wait for them."""
        return self._calls.stream(lambda one: one.listen(requests, metadata=self._metadata))

    async def _send(self, method: str, message: messages.Message, writes: str = "") -> Any:
        """Make a call, which may write to a document. A read is answered by a stream."""
        settings, is_write = self._settings, bool(writes)

        def start(transport: Any) -> Any:
            stub = getattr(transport, method)
            send = stub.future if is_write else stub
            return send(message, timeout=settings.request_timeout, metadata=self._metadata)

        call = Call(start, writes=is_write, is_stream=not is_write)
        try:
            return await self._calls.make(call, partial(told, settings, is_write))
        finally:
            if is_write and not call.answers:
                still = [one for one in self._left if not one[1].answers]
                self._left = [*still, (writes, call)]

    async def settle(self, id: str) -> None:
        """Wait for the end of writes to a document that nobody waits for any more."""
        for written, call in list(self._left):
            if written == id and call.is_begun and not call.answers:
                signal = self._world.signal()
                call.when_ended.append(signal.set)
                if not call.answers:
                    until = self._world.now() + self._settings.request_timeout
                    if not await self._world.wait(signal, until):
                        raise no_answer(self._settings.shown, "in time", writes=True)

    def close(self) -> None:
        self._calls.close()
