"""Requests to Firestore over gRPC, each sent once, for threads and asyncio alike.

The transport is the one of google-cloud-firestore for threads. One thread makes it and begins all
calls, so that no exception of a signal handler reaches into the driver. The end of a call sets a
signal of the World: a thread and a task wait for it in the same way, and both can stop waiting at
any time. The AsyncClient would need a second wire, and has no listener. A read is a stream, which
only a thread can wait for: it has one of its own while it lasts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from ....errors import Unavailable
from ....wires.caller_thread import CallerThread
from ....wires.daemon_thread import start_daemon
from ....world import World
from ..documents import Document, Write
from ..settings import Settings
from . import messages
from .errors import DEADLINE_EXCEEDED, UNAVAILABLE, no_answer, not_connected, status_of, told

TRANSPORTS = "google.cloud.firestore_v1.services.firestore.transports"
EMULATOR_VARIABLE = "FIRESTORE_EMULATOR_HOST"  # as all clients of Google's read it
CLIENT_S = 20.0  # to load the client and find credentials, which may lie behind a network
SPARE_S = 0.2  # for gRPC to tell by itself that time is over
KEEPALIVE_MS = 30_000
BATCH_MAX = 500  # writes in one request
NO_ANSWER = {DEADLINE_EXCEEDED, UNAVAILABLE}
UNARY = {"commit", "batch_write"}

CHANNEL = [
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    # Else a forked child is given its parent's connection, which is none in the child.
    ("grpc.use_local_subchannel_pool", 1),
]


class _Request:
    """A call of one method, and what came of it."""

    def __init__(self, method: str, message: messages.Message, done: Callable[[], None]) -> None:
        self.method = method
        self.message = message
        self.when_done = [done]
        self.answers = list[Any]()  # one answer, or an exception
        self.call: Any = None
        self.transport: Any = None  # over which it was begun
        self.is_begun = False
        self.is_left = False  # nobody waits for it any more

    def ended(self, call: Any) -> None:
        self.end(call.result)

    def end(self, work: Callable[[], Any]) -> None:
        """Keep what came of it, and wake whoever waits."""
        try:
            self.tell(work())
        except Exception as error:
            self.tell(error)

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()

    def tell(self, answer: Any) -> None:
        self.answers.append(answer)
        for done in list(self.when_done):
            done()


class Wire:
    """The connection of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._caller = CallerThread("fencelock-firestore")
        self._transport: Any = None
        self._broken: Any = None  # a transport over which a call had no answer
        self._stale: Any = None  # the one before, whose last calls may not have ended
        self._stream: Any = None  # of the listener
        self._login: Any = None
        self._left = list[tuple[str, _Request]]()
        """By document, the writes that nobody waits for any more, and that may not have ended."""
        self._closed = False
        self.emulator = settings.emulator or os.environ.get(EMULATOR_VARIABLE) or None
        prefix = ("google-cloud-resource-prefix", settings.parent)
        routing = ("x-goog-request-params", f"database={settings.parent.replace('/', '%2F')}")
        owner = ("authorization", "Bearer owner")  # of an emulator, past its security rules
        self._metadata = [prefix, routing, *([owner] if self.emulator else [])]

    # Requests

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
                failed = told(self._settings, status.code, status.message, writes=True)
                at = messages.microseconds(result.update_time)
                done.append(failed if status.code else at)
        return done

    async def read(self, *ids: str) -> list[Document | None]:
        """Read documents as the last writes have left them; None where there is none."""
        answers = await self._send("batch_get_documents", messages.get(self._settings, ids))
        found = {one.id: one for one in self._documents(answers, "found")}
        return [found.get(id) for id in ids]

    async def ids_between(self, first: str, end: str, most: int) -> list[Document]:
        """Read documents in the order of their ids."""
        request = messages.ids_between(self._settings, first, end, most)
        return self._documents(await self._send("run_query", request), "document")

    async def overdue(self, wall_us: int, most: int) -> list[Document]:
        """Read documents that may be dead by now."""
        request = messages.overdue(self._settings, wall_us, most)
        return self._documents(await self._send("run_query", request), "document")

    async def server_us(self) -> int:
        """Firestore's time, of a read that finds nothing."""
        request = messages.get(self._settings, ["clock:"])
        answers = await self._send("batch_get_documents", request)
        return messages.microseconds(answers[0].read_time)

    def listen(self, requests: Iterator[messages.Message]) -> Any:
        """Open a stream of changes, in a thread that can wait for them."""
        transport = self._transport
        if transport is None or self._closed:
            raise Unavailable(f"{self._settings.shown} is not connected")
        self._stream = transport.listen(requests, metadata=self._metadata)
        return self._stream

    def _documents(self, answers: Sequence[Any], part: str) -> list[Document]:
        return [
            messages.document(
                self._settings, getattr(answer, part), messages.microseconds(answer.read_time)
            )
            for answer in answers
            if part in answer
        ]

    async def _send(self, method: str, message: messages.Message, writes: str = "") -> Any:
        """Make a call, which may write to a document, and wait for its end.

        A read that nobody waits for any more is cancelled. A write is not: it may be carried out
        all the same, and whoever undoes it has to know when it has ended.
        """
        world, settings = self._world, self._settings
        if self._closed or world.limit() <= world.now():
            why = "the client is closed" if self._closed else "no time is left"
            raise Unavailable(f"{settings.shown} was not asked: {why}")
        signal = world.signal()
        request, done = _Request(method, message, signal.set), False
        seconds = settings.request_timeout + SPARE_S
        if self._transport is None:
            seconds += CLIENT_S
        try:
            self._submit(lambda: self._begin(request))
            done = await world.wait(signal, world.now() + seconds)
        finally:
            if not done:
                request.is_left = True
                if writes:
                    still = [one for one in self._left if not one[1].answers]
                    self._left = [*still, (writes, request)]
                else:
                    self._caller.submit(request.cancel)
        if not request.answers:
            if not request.is_begun:
                raise Unavailable(f"{settings.shown} was not asked: no connection in time")
            raise no_answer(settings, "in time", writes=bool(writes))
        answer = request.answers[0]
        if not isinstance(answer, Exception):
            return answer
        if not request.is_begun:
            raise not_connected(settings, answer) from answer
        code, details = status_of(answer)
        if code in NO_ANSWER:
            self._broken = request.transport
        raise told(settings, code, details, writes=bool(writes)) from answer

    async def settle(self, id: str) -> None:
        """Wait for the end of writes to a document that nobody waits for any more."""
        for written, request in list(self._left):
            if written == id and request.is_begun and not request.answers:
                signal = self._world.signal()
                request.when_done.append(signal.set)
                if not request.answers:
                    until = self._world.now() + self._settings.request_timeout
                    if not await self._world.wait(signal, until):
                        raise no_answer(self._settings, "in time", writes=True)

    def _submit(self, work: Callable[[], None]) -> None:
        try:
            self._caller.submit(work)
        except RuntimeError as error:
            raise Unavailable(f"{self._settings.shown} was not asked: {error}") from error

    # In the thread that begins calls

    def _connect(self) -> None:
        """See that there is a transport over which the last call was not left without an answer.

        gRPC would take minutes to notice that nothing comes over a connection any more, and waits
        between two attempts to connect. Calls of others may still end well over the last one.
        """
        if self._transport is not None and self._transport is self._broken:
            stale, self._stale, self._transport = self._stale, self._transport, None
            for ended in stale and stale.close, self._stream and self._stream.cancel:
                if ended:
                    ended()
        if self._transport is None:
            self._transport = self._new_transport()

    def _begin(self, request: _Request) -> None:
        try:
            self._connect()
        except Exception as error:  # the next request tries again
            request.tell(error)
            return
        request.is_begun = True  # first: whoever leaves now must not be told that nothing was sent
        if request.is_left:
            request.tell(None)
            return
        request.transport = self._transport
        timeout = self._settings.request_timeout
        method: Any = getattr(self._transport, request.method)
        try:
            if request.method in UNARY:
                call = method.future(request.message, timeout=timeout, metadata=self._metadata)
                call.add_done_callback(request.ended)
            else:
                call = method(request.message, timeout=timeout, metadata=self._metadata)
                start_daemon(lambda: request.end(lambda: list(call)), "fencelock-firestore-read")
        except Exception as error:
            request.tell(error)
        else:
            request.call = call

    def _new_transport(self) -> Any:
        transport: Any = import_module(TRANSPORTS).FirestoreGrpcTransport
        if self.emulator:
            channel = import_module("grpc").insecure_channel(self.emulator, options=CHANNEL)
        else:
            if self._login is None:
                self._login, _ = import_module("google.auth").default(scopes=transport.AUTH_SCOPES)
            channel = transport.create_channel(
                transport.DEFAULT_HOST, credentials=self._login, options=CHANNEL
            )
        return transport(channel=channel)

    def close(self) -> None:
        """End the calls that are under way, and begin no more."""
        self._closed = True
        self._caller.end(self._disconnect)

    def _disconnect(self) -> None:
        for transport in self._transport, self._stale:
            if transport is not None:
                transport.close()
