"""HTTP/1.1 over h11, without sockets: one request at a time on one connection."""

from __future__ import annotations

from typing import Any, NamedTuple

import h11

BODY_MAX = 64_000_000  # bytes of a response: a page of locks has far fewer


class Response(NamedTuple):
    """The response of a node."""

    status: int
    body: bytes
    where: str = ""
    """The address of the node, for messages."""


class Http1:
    """The HTTP state of one client connection."""

    def __init__(self, headers: tuple[tuple[str, str], ...]) -> None:
        self._connection = h11.Connection(h11.CLIENT)
        self._headers = headers
        self._status = 0
        self._body: list[bytes] = []
        self._size = 0
        self.reusable = True
        """Whether another request can be sent after the response."""

    def request(self, method: str, target: str, body: bytes | None) -> bytes:
        """Encode a request."""
        headers = [*self._headers]
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        connection, end = self._connection, h11.EndOfMessage()
        data = connection.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body is not None:
            data += connection.send(h11.Data(data=body)) or b""
        return data + (connection.send(end) or b"")

    def feed(self, data: bytes) -> Response | None:
        """Feed received bytes; return the response once it is complete.

        Raise ConnectionError at the end of the connection and for bytes that are not HTTP.
        """
        try:
            self._connection.receive_data(data)
            while True:
                event: Any = self._connection.next_event()
                if event is h11.NEED_DATA:
                    return None
                if isinstance(event, h11.Response):
                    self._status = int(event.status_code)
                elif isinstance(event, h11.Data):
                    self._collect(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    return self._answer()
                elif isinstance(event, h11.ConnectionClosed):
                    raise ConnectionError("the connection was closed")
        except h11.RemoteProtocolError as error:
            if not data:
                raise ConnectionError("the connection was closed") from error
            raise ConnectionError(f"the answer is not HTTP: {error}") from error

    def _collect(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > BODY_MAX:
            raise ConnectionError("the answer is too large")
        self._body.append(data)

    def _answer(self) -> Response:
        response = Response(self._status, b"".join(self._body))
        self._body, self._size = [], 0
        states = (self._connection.our_state, self._connection.their_state)
        if states == (h11.DONE, h11.DONE):
            self._connection.start_next_cycle()
        else:
            self.reusable = False
        return response
