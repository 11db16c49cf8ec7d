"""Share one connection between all threads that call, without a thread of its own.

Whoever waits for an answer reads, if nobody else does, and receives for all; once it has its own
answer it wakes another who waits, to go on reading. So a thread that is alone sends and receives
for itself, and many have their requests under way at once.

A signal handler may raise between any two steps. So the turn to read is no lock, which such a
moment could leave locked for good: it belongs to a call, and every end of that call gives it back.
"""

from __future__ import annotations

import socket
import threading
from time import monotonic

from .call import Call, RpcError
from .hpack import Malformed
from .server import Server
from .socket_threads import READ_MAX, FrameSocket

LOOK_AGAIN_S = 0.01  # a connection that was used so lately is taken to be alive
_DONT_WAIT = getattr(socket, "MSG_DONTWAIT", None)


class _ThreadsCall(Call):
    """A call that a thread waits for."""

    __slots__ = ("wake",)

    def __init__(self, head: bytes, message: bytes) -> None:
        super().__init__(head, message)
        self.wake: threading.Lock | None = None
        """Released when there is something to do for whoever waits."""

    def on_end(self) -> None:
        if self.wake is not None:
            _release(self.wake)


class ThreadsClient:
    """The connection, and who reads it."""

    def __init__(self, server: Server, within: float) -> None:
        self._socket = FrameSocket(server, within)
        self._frames = self._socket.frames
        self._reader: dict[bool, object] = {}
        """Who reads, if anybody: taken in one step, by ``setdefault``."""
        self._used_at = monotonic()
        self._retired = False

    def call(self, head: bytes, message: bytes, within: float) -> bytes:
        """Send a request and wait for its answer; RpcError when the time is up at the latest."""
        call, due = _ThreadsCall(head, message), monotonic() + within
        try:
            self._socket.begin(call)
            self._wait(call, due)
            if not call.done:
                self._socket.cancel(call)
                call.end(RpcError("DEADLINE_EXCEEDED", f"no answer within {within:.3g} s"))
                self._hand_on()
        except BaseException:  # of a signal handler: leave nothing to this call
            with self._socket.mutex:
                self._frames.cancel(call)
            self._step_down(call)
            raise
        finally:
            self._used_at = monotonic()
            if self._retired and self._frames.idle:
                self.close()
        return call.result()

    @property
    def is_read(self) -> bool:
        """Whether somebody reads, and receives for all."""
        return bool(self._reader)

    def _wait(self, call: _ThreadsCall, due: float) -> None:
        if self._reader.setdefault(True, call) is call:
            self._lead(call, due)
            return
        call.wake = wake = threading.Lock()
        wake.acquire()
        while not call.done:
            if self._reader.setdefault(True, call) is call:
                self._lead(call, due)
                return
            left = due - monotonic()
            if left <= 0 or not wake.acquire(timeout=left):
                return

    def _lead(self, call: Call, due: float) -> None:
        """Read for all until a call is over, or its time."""
        sock = self._socket
        try:
            while not call.done and (left := due - monotonic()) > 0:
                try:
                    sock.read(left)
                except (BlockingIOError, TimeoutError):
                    continue  # nothing came
        except (OSError, Malformed) as error:
            sock.close(str(error))
        except BaseException:  # something may have been read and not been taken
            sock.close("interrupted")
            raise
        finally:
            if not sock.usable:
                sock.let_go()
            self._reader.pop(True, None)
            if not self._frames.idle:
                self._appoint(call)

    def _appoint(self, but: Call | None = None) -> None:
        """Let another one read, if there is one who waits."""
        with self._socket.mutex:
            waiting = self._frames.under_way()
        for call in waiting:
            if isinstance(call, _ThreadsCall) and call.wake is not None and call is not but:
                _release(call.wake)
                return

    def _hand_on(self) -> None:
        """Whoever gives up may have been appointed just now, and not know of it."""
        if not self._reader:
            self._appoint()

    def is_alive(self) -> bool:
        """False if no call can begin here, such as after the server hung up unnoticed."""
        recently = monotonic() - self._used_at < LOOK_AGAIN_S
        if not recently and _DONT_WAIT is not None:
            turn = object()
            try:
                if self._reader.setdefault(True, turn) is turn:
                    self._catch_up(_DONT_WAIT)
            finally:  # a call may have begun meanwhile, and have left the reading to us
                self._step_down(turn)
        return self._socket.usable and not self._frames.leaving

    def _catch_up(self, flags: int) -> None:
        """Read what came while nobody waited for anything."""
        try:
            while data := self._socket.receive(READ_MAX, flags):
                self._socket.received(data)
            raise ConnectionResetError("the server closed the connection")
        except BlockingIOError:
            pass  # nothing: as it should be
        except (OSError, Malformed) as error:
            self._socket.close(str(error))
            self._socket.let_go()
        except BaseException:
            self._socket.close("interrupted")
            raise

    def retire(self) -> None:
        """Let no more calls begin, and close with the end of the last."""
        self._retired = True
        with self._socket.mutex:
            self._frames.leaving = self._frames.leaving or "the connection was left"
        if self._frames.idle:
            self.close()

    def close(self) -> None:
        """End the connection, and all calls on it."""
        self._socket.close()
        turn = object()
        try:
            if self._reader.setdefault(True, turn) is turn:  # else who reads is woken, and lets go
                self._socket.let_go()
        finally:
            self._step_down(turn)

    def _step_down(self, turn: object) -> None:
        """Let others read, if this one did. Twice: a signal handler may raise in here as well."""
        try:
            self._leave_to_others(turn)
        finally:
            self._leave_to_others(turn)

    def _leave_to_others(self, turn: object) -> None:
        if self._reader.get(True) is turn:
            self._reader.pop(True, None)
        if not self._frames.idle:
            self._hand_on()


def _release(wake: threading.Lock) -> None:
    try:
        wake.release()
    except RuntimeError:
        pass  # it was woken before, and has not seen it yet
