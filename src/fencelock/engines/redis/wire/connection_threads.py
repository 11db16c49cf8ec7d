"""One connection that all threads of a program share, without a thread of its own.

A thread that finds it free sends and receives for itself, at once. A thread that comes meanwhile
queues; when the one before has its replies, the first in the queue leads: it sends the requests of
all that wait in one write, receives for all, and wakes them. So many threads need few system calls
and hardly contend for the interpreter.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import hiredis
import redis.connection
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from ....errors import OutcomeUnknown, Unavailable
from ....wires.poll import READ, new_poll
from ....wires.socket_timeout import set_timeout, waits_in_kernel
from ....wires.wakeup_pipe import WakeupPipe
from ..settings import Node, Settings, where
from .connection import PING, cannot_connect, new_connection, time_up

READ_MAX = 16384
SEND_S = 1.0  # the longest that a socket may take to accept a request, which fits its buffer
ENDED = "the server closed the connection"


def _no_end() -> float:
    return inf


def _at_once(milliseconds: float) -> bool:
    """Do not wait: the read itself does, with Python's own timeout."""
    return True


class Stale(Exception):
    """The connection broke before this request was sent: another connection will do."""


class _Queued:
    """A request that waits for the thread that leads."""

    __slots__ = ("count", "error", "leads", "payload", "replies", "told", "woken")

    def __init__(self, payload: bytes, count: int) -> None:
        self.payload = payload
        self.count = count
        self.replies: list[Any] | None = None
        self.error: Exception | None = None
        self.leads = False
        self.told = False
        self.woken = threading.Lock()
        self.woken.acquire()


class ThreadsStream:
    """A socket that redis-py has connected and logged in, with a parser for its replies.

    The socket is taken over from redis-py, by its private ``_sock`` (read in redis-py 8.1).
    """

    def __init__(
        self,
        settings: Settings,
        node: Node,
        sentinel: bool = False,
        left: Callable[[], float] = _no_end,
    ) -> None:
        self.node = node
        self._connection = new_connection(
            redis.connection, Retry(NoBackoff(), 0), settings, node, sentinel
        )
        if (seconds := left()) < settings.request_timeout:
            if seconds <= 0:
                raise time_up(node)
            self._connection.socket_timeout = seconds
            self._connection.socket_connect_timeout = seconds
        try:
            self._connection.connect()
        except Exception as error:
            self._connection.disconnect()
            if isinstance(error, (RedisError, OSError)):
                raise cannot_connect(node, error) from error
            raise
        self.socket: socket.socket = self._connection._sock
        self.gets, self.feed = _parser()
        self.receive = self.socket.recv

    def close(self) -> None:
        self._connection.disconnect()


class ThreadsConnection(ThreadsStream):
    """One connection. No request outlasts the time ``left`` to the thread that makes it."""

    def __init__(
        self,
        settings: Settings,
        node: Node,
        sentinel: bool = False,
        left: Callable[[], float] = _no_end,
    ) -> None:
        super().__init__(settings, node, sentinel, left)
        self._left = left
        self.usable = True
        self.owes = False
        """Whether a request was sent whose reply was not read: a thread that finds that on its turn
        must not take that reply for its own. An exception of a signal handler can come at any
        bytecode, and another one before the connection is closed because of the first."""
        self.request_timeout = min(settings.request_timeout, SEND_S)
        set_timeout(self.socket, self.request_timeout)
        self.times_itself = waits_in_kernel(self.socket)
        """Whether ``comes`` waits before each read, so that the socket's timeout is for sending."""
        self.send = self.socket.sendall
        self.comes: Callable[[float], object] = _at_once
        """Waits so many milliseconds for data; returns whether there is any to receive."""
        if self.times_itself:
            poll = new_poll()
            poll.register(self.socket.fileno(), READ)
            self.comes = poll.poll
        self.calls = (self.send, self.comes, self.receive, self.feed, self.gets)
        """What a request with one reply calls, as one tuple: five look-ups take longer."""
        self.turn = threading.Lock()
        """Held by the thread that sends and receives."""
        self.queue: deque[_Queued] = deque()
        """The requests that wait for that thread."""
        self._mutex = threading.Lock()  # for the queue

    def set_timeout(self, seconds: float) -> None:
        """Set the socket's own timeout, which limits a read without a poll."""
        set_timeout(self.socket, seconds)
        self.request_timeout = seconds

    def request(self, payload: bytes, count: int, request_timeout: float) -> list[Any]:
        """Send a payload, and wait for ``count`` replies."""
        if (left := self._left()) < request_timeout:
            if left <= 0:
                raise time_up(self.node)
            request_timeout = left
        if not self.turn.acquire(False):
            return self.queue_up(payload, count, request_timeout)
        try:
            if not self.usable:
                raise Stale
            return self.exchange(payload, count, request_timeout)
        except BaseException as error:  # also when interrupted: no request may get a late reply
            self.close()
            if isinstance(error, OSError):
                raise self.unanswered(request_timeout, error) from error
            raise
        finally:
            self.leave()

    def unanswered(self, request_timeout: float, error: OSError) -> OutcomeUnknown:
        """Return the error of a request that was sent and has no reply."""
        if isinstance(error, (BlockingIOError, TimeoutError)):
            return OutcomeUnknown(
                f"{where(self.node)} did not answer within {request_timeout:.3g} s"
            )
        return OutcomeUnknown(f"the connection to {where(self.node)} broke ({error})")

    def release_turn(self) -> None:
        """Release the turn; a call that was interrupted while it left may have done so before."""
        try:
            self.turn.release()
        except RuntimeError:
            pass

    def leave(self) -> None:
        """Pass the turn to the first in the queue, or release it."""
        if self.queue:
            self._appoint()
        else:
            self.release_turn()
            if self.queue:  # a request was queued between these two lines
                self.step_in()

    def exchange(self, payload: bytes, count: int, request_timeout: float) -> list[Any]:
        """Send and receive; the caller has the turn."""
        if self.owes:
            self.close()
            raise Stale
        self.owes = True
        if not self.times_itself and request_timeout != self.request_timeout:
            self.set_timeout(request_timeout)
        self.send(payload)
        replies: list[Any] = []
        while True:
            if not self.comes(request_timeout * 1000):
                raise TimeoutError
            data = self.receive(READ_MAX)
            if not data:
                raise ConnectionResetError(ENDED)
            self.feed(data)
            while (reply := self.gets()) is not False:
                replies.append(reply)
                if len(replies) == count:
                    self.owes = False
                    return replies

    def read_available(self) -> list[Any]:
        """Read once, and return the replies that have come."""
        data = self.receive(READ_MAX)
        if not data:
            raise ConnectionResetError(ENDED)
        self.feed(data)
        replies: list[Any] = []
        while (reply := self.gets()) is not False:
            replies.append(reply)
        return replies

    def close(self) -> None:
        self.usable = False
        super().close()

    def queue_up(self, payload: bytes, count: int, request_timeout: float) -> list[Any]:
        """Queue a request; wait until a leader has its replies, or lead."""
        call = _Queued(payload, count)
        try:
            with self._mutex:
                self.queue.append(call)
            self.step_in()
            if call.woken.acquire(timeout=request_timeout) or call.leads:
                if call.leads:
                    self._lead_in_time(call, request_timeout)
            else:
                self._give_up(call, request_timeout)
        except BaseException:  # interrupted: this thread must not be appointed any more
            self._withdraw(call)
            if call.leads:
                self._remove([call])
                self._pass_on(call)
            raise
        error, call.error = call.error, None
        if error is not None:
            try:
                raise error
            finally:  # its traceback has this frame: a cycle would keep the connection alive
                del error
        assert call.replies is not None
        return call.replies

    def _lead_in_time(self, call: _Queued, request_timeout: float) -> None:
        """Lead, or leave that to the next request if the time of this one is up."""
        left = self._left()
        if left > 0:
            self._lead(call, min(request_timeout, left))
            return
        self._remove([call])
        call.error = time_up(self.node)
        self._pass_on(call)

    def _give_up(self, call: _Queued, request_timeout: float) -> None:
        """Wait no more, unless appointed to lead meanwhile: then others rely on this thread."""
        is_ours = self._left() <= 0  # the caller's time is up, not the request timeout
        with self._mutex:
            was_sent = call not in self.queue
            if not was_sent and not call.leads:
                self.queue.remove(call)
        if call.leads:
            self._lead_in_time(call, request_timeout)
        elif call.told:
            return  # its replies came just now
        elif is_ours and not was_sent:
            call.error = time_up(self.node)
        else:
            call.error = self.unanswered(request_timeout, TimeoutError())
            if not is_ours:
                self.close()  # the thread with the turn hangs, or was interrupted before it began

    def _withdraw(self, call: _Queued) -> None:
        """Leave the queue, unless this thread was appointed to lead meanwhile."""
        with self._mutex:
            if not call.leads and call in self.queue:
                self.queue.remove(call)

    def step_in(self) -> None:
        """Appoint a leader if no thread leads."""
        if self.turn.acquire(blocking=False):
            self._appoint()

    def _appoint(self) -> None:
        """Hand the turn to the first in the queue; if the queue is empty, release it."""
        while True:
            with self._mutex:
                if self.queue:
                    first = self.queue[0]
                    first.leads = True
                    first.woken.release()
                    return
            self.release_turn()
            if not self.queue or not self.turn.acquire(blocking=False):
                return

    def _pass_on(self, leader: _Queued) -> None:
        """Stop leading, and appoint the next leader; called twice, it would appoint two."""
        leader.leads = False
        self._appoint()

    def _lead(self, leader: _Queued, request_timeout: float) -> None:
        """Send and receive for all requests in the queue."""
        batch: list[_Queued] = []
        error: Exception | None = None
        replies: list[Any] = []
        try:
            with self._mutex:
                batch.extend(self.queue)
                self.queue.clear()
            if not self.usable:
                raise Stale
            payload = b"".join([call.payload for call in batch])
            replies = self.exchange(payload, sum(call.count for call in batch), request_timeout)
        except Stale:
            error = Stale()  # made here, not raised: its traceback would have this frame
        except OSError as broken:
            self.close()
            error = self.unanswered(request_timeout, broken)
        except BaseException:
            self.close()
            error = _interrupted(self.node)
            self._remove(batch)
            raise
        finally:
            try:
                self._deliver(leader, batch, replies, error)
            except BaseException:  # interrupted: the rest of the batch still waits
                self._deliver(leader, batch, replies, error)
                raise
            finally:
                self._pass_on(leader)

    def _remove(self, calls: list[_Queued]) -> None:
        """Take these requests out of the queue, if they are in it."""
        with self._mutex:
            for call in calls:
                if call in self.queue:
                    self.queue.remove(call)

    def _deliver(
        self, leader: _Queued, batch: list[_Queued], replies: list[Any], error: Exception | None
    ) -> None:
        if error is None and not replies:  # interrupted again before it could set the error
            error = _interrupted(self.node)
        start = 0
        for call in batch:
            if not call.told:
                call.error = error
                call.replies = replies[start : start + call.count]
                call.told = True
                if call is not leader:
                    call.woken.release()
            start += call.count


def _interrupted(node: Node) -> OutcomeUnknown:
    return OutcomeUnknown(f"the thread that asked {where(node)} for all was interrupted")


class ThreadsSubscription:
    """A connection that one thread receives from; any other may interrupt it."""

    def __init__(self, connection: ThreadsConnection) -> None:
        self.broken = ""
        self.unanswered = False
        self._connection = connection
        connection.set_timeout(1.0)
        self._wakeup = WakeupPipe()
        self._closed = False
        self._poll = new_poll()
        self._poll.register(connection.socket.fileno(), READ)
        self._poll.register(self._wakeup.open(), READ)

    async def receive(self, seconds: float) -> list[bytes]:
        ready = self._poll.poll(seconds * 1000 + 1 if seconds > 0 else 1)
        if self._closed or not ready:
            return []
        if len(ready) > 1 or ready[0][0] == self._wakeup.descriptor:
            self._wakeup.drain()
            if len(ready) == 1:
                return []
        try:
            replies = self._connection.read_available()
        except BaseException as error:  # also when interrupted: maybe in the middle of a message
            self.broken = str(error) or "interrupted"
            if isinstance(error, OSError):
                raise Unavailable(f"the inbox was cut off ({error})") from error
            raise
        self.unanswered = False
        return [reply[2] for reply in replies if type(reply) is list and reply[0] == b"message"]

    def ping(self) -> None:
        self.unanswered = True
        try:
            self._connection.send(PING)
        except BaseException as error:  # also when interrupted: maybe a part of it was sent
            self.broken = str(error) or "interrupted"
            if isinstance(error, OSError):
                raise Unavailable(f"the inbox was cut off ({error})") from error
            raise

    def on_message(self, handle: Callable[[bytes], None]) -> None:
        """Do nothing: nothing is read unless a thread receives."""

    def interrupt(self) -> None:
        self._wakeup.wake()

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()  # the thread that made it may have been interrupted

    def close(self) -> None:
        self._closed = True
        self._wakeup.close()
        self._connection.close()


def _parser() -> tuple[Any, Any]:
    reader = hiredis.Reader()
    return reader.gets, reader.feed
