"""Limits on the headers of a request and on clients that do not read, which uvicorn has not.

The names that are used here were read in uvicorn 0.54; a test sends what they limit.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .problems import MEDIA_TYPE, Problem

HEAD_MAX = 32_768  # bytes of a request before its body, and of what is read along with them
HEAD_S = 10.0  # within which they have to arrive on a new connection
WRITE_S = 20.0  # after which a connection ends whose client reads nothing of an answer


class LimitedProtocol(HttpToolsProtocol):
    """A connection of uvicorn's that ends when headers are too large or do not come, or when its
    client does not read.
    """

    _head = 0
    """Bytes that have come since a request began whose headers are not complete."""
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._is_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        timer, self._unread = self._unread, None
        if timer is not None:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_MAX and not self.transport.is_closing():
            self._refuse()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._head = -(2**62)  # what follows is the body, which is limited elsewhere
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def _refuse(self) -> None:
        import json

        body = json.dumps(Problem("headers-too-large").body()).encode()
        head = (
            f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _stop_timer(self) -> None:
        timer: Any = self._timer
        if timer is not None:
            timer.cancel()
            self._timer = None
