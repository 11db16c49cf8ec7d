"""One connection that all tasks of an event loop share, for calls and for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .call import Call, Refused
from .connection import Connection
from .frames import DEATH_S, PING_OUT, PONG_S, SILENCE_S
from .hpack import Malformed

LEAVE_S = 10.0  # calls on a connection that is left have ended by then


class _Call(Call):
    """A call that a task waits for."""

    __slots__ = ("due", "future")

    def __init__(self, head: bytes, message: bytes, due: float) -> None:
        super().__init__(head, message)
        self.due = due
        self.future: asyncio.Future[None] | None = None

    def ended(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class Line(asyncio.Protocol):
    """The connection, and who waits for what on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames = Connection()
        self._transport: asyncio.Transport | None = None
        self._usable = True
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._pong: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._streams: set[Stream] = set()

    @property
    def usable(self) -> bool:
        """Whether calls can begin here."""
        return self._usable and not self._frames.leaving

    async def call(self, head: bytes, message: bytes, within: float) -> bytes:
        """Send a request and wait for its answer; Refused when the time is up at the latest.

        A task that is cancelled waits for the answer all the same: a request that is dropped
        half-way may still be served, after what undoes it.
        """
        due = self._loop.time() + within
        call = _Call(head, message, due)
        self._frames.open(call)
        self.flush()
        if self._timer is None or self._timer.when() > due:
            self._watch(due)
        cancelled: asyncio.CancelledError | None = None
        while not call.done:
            call.future = self._loop.create_future()
            try:
                await call.future
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return call.result()

    def flush(self) -> None:
        """Send what is to be sent."""
        out = self._frames.out
        if self._transport is not None and out:
            self._transport.write(b"".join(out))
            out.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            self._frames.feed(data)
        except Malformed as error:
            self.close(str(error))
            return
        if self._frames.out:
            self.flush()
        if self._frames.pongs and self._pong is None:
            self._pong = self._loop.call_later(PONG_S, self._answer_pings)
        if self._frames.leaving and self._frames.idle:
            self.close(self._frames.leaving)

    def _answer_pings(self) -> None:
        self._pong = None
        self._frames.out += self._frames.pongs
        self._frames.pongs.clear()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc or "the server closed the connection"))

    def _watch(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """See whose time is up."""
        self._timer = None
        now = self._loop.time()
        waiting = [call for call in self._frames.under_way() if isinstance(call, _Call)]
        for call in waiting:
            if call.due <= now:
                self._frames.cancel(call)
                call.end(Refused("DEADLINE_EXCEEDED", "no answer in time"))
        self.flush()
        if left := [call.due for call in waiting if not call.done]:
            self._watch(min(left))

    def begin(self, stream: Stream) -> None:
        """Open a stream; from now on the server is asked for a sign of life when it is silent."""
        self._streams.add(stream)
        self._frames.open(stream.call)
        self.flush()
        if self._beat is None:
            self._beat = self._loop.call_later(SILENCE_S, self._see_life)

    def send(self, stream: Stream, message: bytes) -> None:
        self._frames.send(stream.call, message)
        self.flush()

    def end(self, stream: Stream) -> None:
        self._streams.discard(stream)
        self._frames.cancel(stream.call)
        self.flush()

    def _see_life(self) -> None:
        self._beat = None
        silent = self._loop.time() - self._heard_at
        if self._streams and silent < SILENCE_S:
            self._beat = self._loop.call_later(SILENCE_S - silent, self._see_life)
        elif self._streams:
            self._frames.out.append(PING_OUT)
            self.flush()
            self._beat = self._loop.call_later(DEATH_S, self._see_death, self._heard_at)

    def _see_death(self, heard_at: float) -> None:
        if self._heard_at == heard_at:
            self.close("the server shows no sign of life")
        else:
            self._see_life()

    def retire(self) -> None:
        """Let no more calls begin, and close with the end of the last, or after a while."""
        self._frames.leaving = self._frames.leaving or "the connection was left"
        if self._frames.idle:
            self.close()
        else:
            self._loop.call_later(LEAVE_S, self.close)

    def close(self, why: str = "the client is closed") -> None:
        """End the connection, and all calls and streams on it."""
        if self._usable:
            self._usable = False
            for timer in (self._timer, self._beat, self._pong):
                if timer is not None:
                    timer.cancel()
            if self._transport is not None and not self._loop.is_closed():
                self._transport.abort()
            self._frames.fail(why)


class _Flow(Call):
    """A call that tells of each message."""

    __slots__ = ("_end", "_hear")

    def __init__(self, head: bytes, hear: Callable[[bytes], None], end: Callable[[], None]) -> None:
        super().__init__(head, None, goes_on=True)
        self._hear = hear
        self._end = end

    def heard(self, message: bytes) -> None:
        self._hear(message)

    def ended(self) -> None:
        self._end()


class Stream:
    """Messages both ways, until either side ends it."""

    def __init__(
        self,
        line: Awaitable[Line],
        head: bytes,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self.call = _Flow(head, hear, end)
        self._early: list[bytes] = []
        """What is to be said once there is a connection."""
        self._line: Line | None = None
        self._task = asyncio.ensure_future(self._begin(line))

    async def _begin(self, line: Awaitable[Line]) -> None:
        try:
            found = await line
        except Refused as error:
            self.call.end(error)
            return
        if not self.call.done:
            self._line = found
            found.begin(self)
            for message in self._early:
                found.send(self, message)

    def send(self, message: bytes) -> None:
        if self._line is None:
            self._early.append(message)
        else:
            self._line.send(self, message)

    def close(self) -> None:
        self.call.end(None)
        if self._line is not None:
            self._line.end(self)
