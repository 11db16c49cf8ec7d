"""Share one connection between all threads that call, without a thread of its own.

A thread that waits for a reply reads, if no other thread does, and receives for all; once it has
its own reply it wakes another waiter, to go on reading. So a single thread sends and receives for
itself, and many threads have their requests under way at once.

A signal handler may raise between any two steps, also while an earlier exception propagates. So no
state that such a moment could leave stale is trusted for ever. The turn to read is no lock: it
belongs to the frame of a function, and once that no longer runs, the turn was lost, and with it
perhaps some bytes: the connection is closed. The HTTP/2 state is marked while it is changed: a
thread that finds the mark closes the connection, too. And threads that wait for another to read
check now and then whether one does.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType

from .. import tcp
from ..poll import READ, new_poll
from ..socket_timeout import set_timeout, waits_in_kernel
from .connection import PING_OUT, PONG_S, Call, Connection
from .hpack import Malformed
from .server import Server
from .status import RpcError, cannot_connect
from .tls import TlsLayer

READ_MAX = 65_536
SEND_S = 1.0  # a server that takes no byte for so long, with all buffers full, has gone
FRESH_S = 0.01  # a connection that was used so lately is presumed alive
SEE_READER_S = 0.1  # how often waiting threads check whether one reads
_DONT_WAIT = getattr(socket, "MSG_DONTWAIT", None)
_frame = sys._getframe  # pyright: ignore[reportPrivateUsage]


class FrameSocket:
    """A connection that threads share. All but reading is done under its mutex."""

    def __init__(self, server: Server, within: float) -> None:
        """Connect; RpcError says why not."""
        self.mutex = threading.Lock()
        self.frames = Connection()
        self.usable = True
        self._changing = False
        """Whether ``frames`` is being changed. If so while the mutex is free, its state is unknown:
        the change was interrupted."""
        self._pong_at = 0.0
        self._tls: TlsLayer | None = None
        deadline = monotonic() + within
        try:
            self._socket = tcp.connect(server.host, server.port, deadline)
        except OSError as error:
            raise cannot_connect(error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.tls is not None:
                self._tls = TlsLayer(server.tls, server.host)
                self._tls.handshake(self._socket, deadline)
            set_timeout(self._socket, min(within, SEND_S))
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise cannot_connect(error) from error
            raise
        self.receive = self._socket.recv
        self._poll: Callable[[float], object] | None = None
        """Waits so many milliseconds for something to read; None where the read itself waits."""
        if waits_in_kernel(self._socket):
            poll = new_poll()
            poll.register(self._socket.fileno(), READ)
            self._poll = poll.poll

    def begin(self, call: Call) -> None:
        """Send a request, or the beginning of a stream."""
        self._do(self.frames.open, call)

    def send(self, call: Call, message: bytes) -> None:
        """Send one more message of a stream."""
        self._do(self.frames.send, call, message)

    def cancel(self, call: Call) -> None:
        """Cancel a call."""
        self._do(self.frames.cancel, call)

    def ping(self) -> None:
        """Send a ping."""
        self._do(self.frames.out.append, PING_OUT)

    def _do(self, change: Callable[..., None], *about: object) -> None:
        with self.mutex:
            try:
                self._begin_change()
                change(*about)
                if self.frames.out:
                    self._flush()
                self._changing = False
            except BaseException:  # interrupted
                self._break("interrupted")
                raise

    def read(self, within: float) -> None:
        """Wait for bytes from the server, and take them. TimeoutError: nothing came; any other
        OSError: the connection is broken."""
        if self._poll is not None and not self._poll(within * 1000):
            raise TimeoutError
        data = self.receive(READ_MAX)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self.received(data)

    def received(self, data: bytes) -> None:
        """Take received bytes; the thread that reads closes the connection if this fails."""
        with self.mutex:
            self._begin_change()
            if self._tls is not None:
                data = self._tls.decrypt(data)
            self.frames.feed(data)
            if self._tls is not None and self._tls.is_over:
                raise ConnectionResetError("the server closed the connection")
            if self.frames.pongs and not self._pong_at:
                self._pong_at = monotonic() + PONG_S
            if self.frames.out or self._tls is not None:
                self._flush()
            self._changing = False

    def _begin_change(self) -> None:
        if self._changing:
            self._break("interrupted")
        self._changing = True

    def _flush(self) -> None:
        """Send all that is in ``out``. An error shuts the socket down, which the reader notices."""
        if not self.usable:
            return
        if self._pong_at and monotonic() >= self._pong_at:
            self._move_pongs()
        out = b"".join(self.frames.out)
        self.frames.out.clear()
        try:
            if self._tls is not None:
                out = self._tls.encrypt(out) if out else self._tls.answer()
            if out:
                self._socket.sendall(out)
        except OSError as error:
            self._break(str(error))

    def pong(self) -> None:
        """Answer the server's pings now."""
        if self.frames.pongs:
            self._do(self._move_pongs)

    def _move_pongs(self) -> None:
        self._pong_at = 0.0
        self.frames.out += self.frames.pongs
        self.frames.pongs.clear()

    def close(self, why: str = "the client is closed") -> None:
        """End the connection, and all calls on it."""
        with self.mutex:
            self._break(why)
            self.frames.fail(why)

    def _break(self, why: str) -> None:
        """Wake the thread that reads, and let none send any more."""
        if self.usable:
            self.frames.leaving = self.frames.leaving or why
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is not connected any more
            self.usable = False  # last: if this is interrupted, the next call does all of it

    def let_go(self) -> None:
        """Close the socket itself, once no thread reads it."""
        self._socket.close()


class _ThreadsCall(Call):
    """A call that a thread waits for."""

    __slots__ = ("wake",)

    def __init__(self, head: bytes, message: bytes) -> None:
        super().__init__(head, message)
        self.wake: threading.Lock | None = None
        """Released when there is something to do for the thread that waits."""

    def on_end(self) -> None:
        if self.wake is not None:
            _release(self.wake)


class ThreadsClient:
    """The connection, and which thread reads it."""

    def __init__(self, server: Server, within: float) -> None:
        self._socket = FrameSocket(server, within)
        self._frames = self._socket.frames
        self._reader: dict[bool, FrameType] = {}
        """The frame that reads, if any does: taken in one step, by ``setdefault``."""
        self._used_at = monotonic()
        self._retired = False

    def call(self, head: bytes, message: bytes, within: float) -> bytes:
        """Send a request and return its reply; RpcError when the time is up at the latest."""
        call, due = _ThreadsCall(head, message), monotonic() + within
        try:
            self._socket.begin(call)
            if not self._lead(call, due):
                self._follow(call, due)
            if not call.done:
                self._socket.cancel(call)
                call.end(RpcError("DEADLINE_EXCEEDED", f"no answer within {within:.3g} s"))
                self._appoint()  # this thread may have been woken to read just now
        except BaseException:  # an exception of a signal handler: this call will read no more
            self._socket.cancel(call)
            self._appoint()
            raise
        finally:
            self._used_at = monotonic()
            if self._retired and self._frames.idle:
                self.close()
        return call.result()

    def _follow(self, call: _ThreadsCall, due: float) -> None:
        """Wait until another thread has read the reply; read if no thread does."""
        call.wake = wake = threading.Lock()
        wake.acquire()
        while not call.done and not self._lead(call, due):
            left = due - monotonic()
            if left <= 0:
                return
            if not wake.acquire(timeout=min(left, SEE_READER_S)):
                self._see_reader()

    def _lead(self, call: Call, due: float) -> bool:
        """Read for all until this call has ended or its time is up; False if another reads."""
        sock = self._socket
        try:
            if not self._take_turn():
                return False
            while not call.done and (left := due - monotonic()) > 0:
                try:
                    sock.read(left)
                except (BlockingIOError, TimeoutError):
                    continue  # nothing came
        except (OSError, Malformed) as error:
            sock.close(str(error))
        except BaseException:
            if self._reader.get(True) is _frame():  # bytes may be read, and not taken
                sock.close("interrupted")
            raise
        finally:
            self._give_turn_back(call)
        return True

    def _take_turn(self) -> bool:
        """Give the turn to read to the calling function, unless another has it."""
        frame = _frame(1)
        return self._reader.setdefault(True, frame) is frame

    def _give_turn_back(self, call: Call | None = None) -> None:
        """Take the turn to read from the calling function, if it has it; ``call`` waits no more."""
        if self._reader.get(True) is _frame(1):
            if not self._socket.usable:
                self._socket.let_go()
            self._reader.pop(True, None)
            self._appoint(call)

    def _appoint(self, but: Call | None = None) -> None:
        """Wake one waiting thread, if none reads."""
        if self._reader or self._frames.idle:
            return
        with self._socket.mutex:
            waiting = self._frames.under_way()
        for call in waiting:
            if isinstance(call, _ThreadsCall) and call.wake is not None and call is not but:
                _release(call.wake)
                return

    def _see_reader(self) -> None:
        """Close the connection if its reader was interrupted, and again while it cleaned up."""
        reader = self._reader.get(True)
        if reader is not None and not _runs(reader):
            self._socket.close("interrupted")
            with self._socket.mutex:  # one thread at a time: once the turn is free, another reads
                if self._reader.get(True) is reader:
                    self._socket.let_go()
                    self._reader.pop(True, None)

    def is_alive(self) -> bool:
        """Return whether a call can begin here: the server may have closed the connection."""
        if self._reader:
            self._see_reader()
        recently = monotonic() - self._used_at < FRESH_S
        if not recently and _DONT_WAIT is not None:
            try:
                if self._take_turn():
                    self._catch_up(_DONT_WAIT)
            finally:  # a call may have begun meanwhile, and have left the reading to us
                self._give_turn_back()
        return self._socket.usable and not self._frames.leaving

    def _catch_up(self, flags: int) -> None:
        """Read what came while no call was under way."""
        try:
            while data := self._socket.receive(READ_MAX, flags):
                self._socket.received(data)
            raise ConnectionResetError("the server closed the connection")
        except BlockingIOError:
            pass  # nothing: as it should be
        except (OSError, Malformed) as error:
            self._socket.close(str(error))
        except BaseException:
            self._socket.close("interrupted")
            raise

    def retire(self) -> None:
        """Begin no more calls, and close when the last one has ended."""
        self._retired = True
        with self._socket.mutex:
            self._frames.leaving = self._frames.leaving or "the connection was left"
        if self._frames.idle:
            self.close()

    def close(self) -> None:
        """End the connection, and all calls on it."""
        self._socket.close()
        try:
            self._take_turn()  # else the reader is woken, and closes the socket
        finally:
            self._give_turn_back()


def _runs(frame: FrameType) -> bool:
    """Return whether a function is still being executed, in any thread."""
    try:
        frame.clear()  # harmless for a frame that has ended
    except RuntimeError:  # "cannot clear an executing frame"
        return True
    return False


def _release(wake: threading.Lock) -> None:
    try:
        wake.release()
    except RuntimeError:
        pass  # this thread was woken before, and has not run yet
