"""Calls over one of Google's generated transports, each sent once, for threads and asyncio alike.

The transport is the one for threads. One thread creates it and begins all calls, so that no
exception of a signal handler reaches into the driver. The end of a call sets a signal of the World:
a thread and a task wait for it in the same way, and both can stop waiting at any time. Only a
thread can wait for a call whose reply is a stream: such a call has one of its own while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from ...errors import Unavailable
from ...wires.caller_thread import CallerThread
from ...wires.daemon_thread import start_daemon
from ...world import World
from .errors import no_answer, not_sent, status_of

LOAD_S = 60.0  # to load the package on a busy machine, and to find credentials
SPARE_S = 0.2  # for gRPC to end the call with a timeout by itself
SILENT_S = 0.3  # without any reply, after which a connection may be dead

OPTIONS = [
    # A write that the library repeats would be refused because of its own success.
    ("grpc.enable_retries", 0),
    # Else a forked child would get its parent's connection, which is unusable in the child.
    ("grpc.use_local_subchannel_pool", 1),
]


class Call:
    """One request, and its outcome."""

    def __init__(
        self, start: Callable[[Any], Any], *, writes: bool, is_stream: bool = False
    ) -> None:
        self.start = start
        """Begins the call over a transport, in the thread that begins calls."""
        self.writes = writes
        self.is_stream = is_stream
        self.when_ended = list[Callable[[], None]]()
        self.answers = list[Any]()  # empty, or one reply or exception
        self.running: Any = None
        self.transport: Any = None  # over which it was begun
        self.is_begun = False
        self.is_abandoned = False  # its caller no longer waits for it

    def end(self, work: Callable[[], Any]) -> None:
        """Store the result of ``work``, or its exception, and wake the callers that wait."""
        try:
            self.finish(work())
        except Exception as error:
            self.finish(error)

    def ended(self, running: Any) -> None:
        self.end(running.result)

    def finish(self, answer: Any) -> None:
        self.answers.append(answer)
        for ended in list(self.when_ended):
            ended()

    def cancel(self) -> None:
        if self.running is not None:
            self.running.cancel()


class ConnectionSettings(Protocol):
    """The settings for connecting to a service."""

    @property
    def emulator(self) -> str | None: ...

    @property
    def request_timeout(self) -> float: ...


class Calls:
    """The connection of one client."""

    def __init__(
        self,
        world: World,
        service: str,
        what: str,
        settings: ConnectionSettings,
        *options: tuple[str, int],
    ) -> None:
        self._world = world
        self._service = service  # the name of its package, its transport and our extra
        self._what = what  # for messages
        self._settings = settings
        self._options = [*OPTIONS, *options]
        self._caller = CallerThread(f"fencelock-{service}")
        self._login: Any = None
        self._broken: Any = None  # a transport without replies, to be replaced
        self._stale: Any = None  # the one before, whose last calls may not have ended
        self._stream: Any = None  # the one long-lived stream, if any
        self._answered_at = 0.0
        self._transport: Any = None
        self.is_closed = False

    async def make(self, call: Call, map_error: Callable[[str, str], Exception]) -> Any:
        """Make a call, and return its reply, or raise what ``map_error`` makes of its status.

        A read whose caller no longer waits is cancelled. A write is not: it may be carried out all
        the same, and the request that undoes it has to know when it has ended.
        """
        world, what = self._world, self._what
        began = world.now()
        if self.is_closed or world.limit() <= began:
            why = "the client is closed" if self.is_closed else "no time is left"
            raise Unavailable(f"{what} was not asked: {why}")
        signal = world.signal()
        call.when_ended.append(signal.set)
        seconds = (
            self._settings.request_timeout + SPARE_S + (LOAD_S if self._transport is None else 0.0)
        )
        try:
            self._caller.submit(lambda: self._begin(call))
            await world.wait(signal, began + seconds)
        except RuntimeError as error:
            raise Unavailable(f"{what} was not asked: {error}") from error
        finally:
            if not call.answers:
                call.is_abandoned = True
                self._suspect(call, began)
                if call.is_begun and not call.writes:
                    self._caller.submit(call.cancel)
        if not call.answers:
            if not call.is_begun:
                raise Unavailable(f"{what} was not asked: no connection in time")
            raise no_answer(what, "in time", writes=call.writes)
        answer = call.answers[0]
        if not isinstance(answer, Exception):
            self._answered_at = world.now()
            return answer
        if not call.is_begun:
            raise not_sent(what, self._service, answer) from answer
        code, words = status_of(answer)
        if code == "UNAVAILABLE":
            self._broken = call.transport
        elif code == "DEADLINE_EXCEEDED":
            self._suspect(call, began)
        raise map_error(code, words) from answer

    def stream(self, start: Callable[[Any], Any]) -> Any:
        """Begin the one long-lived stream, in a thread that can wait for its messages.

        It ends with its connection, also where that is replaced.
        """
        if self._transport is None or self.is_closed:
            raise Unavailable(f"{self._what} is not connected")
        self._stream = start(self._transport)
        return self._stream

    def _suspect(self, call: Call, began: float) -> None:
        """Have the next call open a new connection, if no reply has come for a while."""
        if self._answered_at < began and self._world.now() - began >= SILENT_S:
            self._broken = call.transport

    # In the thread that begins calls

    def _begin(self, call: Call) -> None:
        try:
            self._connect()
            call.is_begun = True  # first: a caller that leaves now must not report it as unsent
            if call.is_abandoned:
                call.finish(None)
                return
            call.transport = self._transport
            running = call.running = call.start(self._transport)
        except Exception as error:  # the next call tries again
            call.is_begun = False
            call.finish(error)
            return
        if not call.is_stream:
            running.add_done_callback(call.ended)
            return
        try:
            label = f"fencelock-{self._service}-read"
            start_daemon(lambda: call.end(lambda: list(running)), label)
        except RuntimeError as error:
            running.cancel()
            call.finish(error)

    def _connect(self) -> None:
        """Make sure that there is a transport, and a new one if the last call had no reply.

        gRPC would take minutes to notice a dead connection, and waits between two attempts to
        connect. Other calls may still end well over the old transport: it is closed later.
        """
        if self._transport is not None and self._transport is self._broken:
            stale, self._stale, self._transport = self._stale, self._transport, None
            if stale is not None:
                stale.close()
            if self._stream is not None:
                self._stream.cancel()
        if self._transport is None:
            self._transport = self._new_transport()

    def _new_transport(self) -> Any:
        service = self._service
        module = import_module(f"google.cloud.{service}_v1.services.{service}.transports")
        kind: Any = getattr(module, f"{service.capitalize()}GrpcTransport")
        emulator = self._settings.emulator
        if emulator:
            options = [*self._options, ("grpc.enable_http_proxy", 0)]
            channel = import_module("grpc").insecure_channel(emulator, options=options)
        else:
            if self._login is None:
                self._login, _ = import_module("google.auth").default(scopes=kind.AUTH_SCOPES)
            channel = kind.create_channel(
                kind.DEFAULT_HOST, credentials=self._login, options=self._options
            )
        return kind(channel=channel)

    def close(self) -> None:
        """End the calls that are under way, and begin no more."""
        self.is_closed = True
        self._caller.end(self._disconnect)

    def _disconnect(self) -> None:
        for transport in self._transport, self._stale:
            if transport is not None:
                transport.close()
