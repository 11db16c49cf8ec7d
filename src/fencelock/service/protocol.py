"""Limits on a connection, which uvicorn's does not have.

A request that does not end, an answer that is not read, and more connections than there are
descriptors for all end the connection. The names of uvicorn that are used here are those of version
0.54; a test sends what they limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .problems import MEDIA_TYPE, Problem

HEAD_MAX = 32_768  # bytes of a request beside its body: headers, sizes of chunks, trailers
HEAD_S = 10.0  # within which headers have to arrive, and the rest of a body that nobody reads
UNREAD_S = 30.0  # for which a client may leave an answer unread
CLOSE_S = 1.0  # within which an idle client confirms the close of its connection: TLS waits for it
CONNECTIONS_MAX = 20_000
SPARE = 100  # descriptors that are kept for the engine, the audit and the loop
_log = logging.getLogger("fencelock.service")


def connections_max() -> int:
    """Return how many connections a process takes: engine and audit need descriptors, too."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, most - SPARE), SPARE // 10)


class LimitedProtocol(HttpToolsProtocol):
    """A connection of uvicorn's that ends when its client is too slow, too large or one too many.

    It has one call at a time. A request that comes before the last one was answered ends it:
    uvicorn would read no further, so that it would not notice when the client of a waiting call
    disconnects.
    """

    _head = 0
    """Bytes of the request that is being read, less twice those of its body: the sizes of its
    chunks may be as many."""
    _in_head = True
    """Whether headers are being read, or awaited on a new connection."""
    _is_read = False
    """Whether the last request has come as a whole."""
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _aborted = False
    full = False
    """Whether the last connection was refused, in this process."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > connections_max():
            refuse_connection(self.transport.abort)
            return
        LimitedProtocol.full = False
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # it was refused
        self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_MAX and not self.transport.is_closing():
            self._refuse()
        if self.transport.is_closing():
            self._wait_for_reader()
        elif self._timer is None and (self._in_head or self._is_more_than_a_request()):
            self._start_timer()

    def _is_more_than_a_request(self) -> bool:
        """Return whether line ends came where a request should begin: uvicorn would wait for it."""
        return self._is_read and self._head > 0 and self._unanswered() is None

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = self._is_read = False
        under_way = self._unanswered()
        if under_way is not None:
            under_way.disconnected = True
            under_way.message_event.set()
            self._aborted = True
            self.transport.abort()
        if not self._aborted:
            super().on_headers_complete()

    def _unanswered(self) -> RequestResponseCycle | None:
        cycle: Any = self.cycle  # uvicorn's own type leaves out that there is none at first
        return None if cycle is None or cycle.response_complete else cycle

    def on_body(self, body: bytes) -> None:
        self._head -= 2 * len(body)
        if not self._aborted:  # else it would be added to the body of the request before
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._head = 0
        self._is_read = True
        if not self._aborted:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()
        elif not self._is_read and self._timer is None:
            self._start_timer()

    def _refuse(self) -> None:
        body = json.dumps(Problem("headers-too-large").body()).encode()
        head = (
            f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    # Timers.

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """Limit the wait for a client that does not read."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        self._stop_waiting_for_reader()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is not used, although its last answer may be unread."""
        super().timeout_keep_alive_handler()
        self._wait_for_reader()

    def shutdown(self) -> None:
        """Close an idle connection of a node that stops, whether or not its client confirms it."""
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.loop.call_later(CLOSE_S, self.transport.abort)

    def _wait_for_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def refuse_connection(close: Callable[[], object]) -> None:
    """Close a connection above the limit; the first one is logged."""
    if not LimitedProtocol.full:
        LimitedProtocol.full = True
        _log.warning(
            "there are %d connections, and no descriptors for more: raise the limit of open "
            "files, or start another node",
            connections_max(),
        )
    close()
