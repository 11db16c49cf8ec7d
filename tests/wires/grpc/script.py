"""A server on a socket that says what the test wants, byte by byte."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import deque

from tests.faults.flavors import SOON
from tests.wires.grpc.peer import PREFACE, Frame, read_frames, settings


class Script:
    """Listens; each connection is played by the test with ``accept``."""

    def __init__(self, backlog: int = 8) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self._listener.settimeout(SOON)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sides: list[Side] = []

    def accept(self, tls: ssl.SSLContext | None = None) -> Side:
        link, _ = self._listener.accept()
        link.settimeout(SOON)
        if tls is not None:
            link = tls.wrap_socket(link, server_side=True)
        side = Side(link)
        self._sides.append(side)
        return side

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        for side in self._sides:
            side.close()


class Side:
    """The server's side of one connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._rest = b""
        self._heard: deque[Frame] = deque()
        self._mutex = threading.Lock()

    def says(self, *parts: bytes) -> None:
        self._link.sendall(b"".join(parts))

    def says_sealed_with_its_end(self, data: bytes) -> None:
        """Over TLS: say something and the end of TLS, in one piece."""
        link = self._link
        assert isinstance(link, ssl.SSLSocket)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        link.sendall(data)
        try:
            link.unwrap().close()
        except OSError:
            pass  # the client had something to say meanwhile

    def greet(self, *pairs: tuple[int, int]) -> None:
        self.says(settings(*pairs))

    def next(self, kind: int) -> Frame:
        """The next frame of a kind; those of others are passed over."""
        while True:
            while self._heard:
                if (found := self._heard.popleft()).kind == kind:
                    return found
            self._read()

    def _read(self) -> None:
        data = self._link.recv(65_536)
        if not data:
            raise ConnectionResetError("the client hung up")
        self._rest += data
        whole, self._rest = _split(self._rest)
        self._heard.extend(read_frames(whole))

    def until_closed(self) -> None:
        """Wait until the client has hung up."""
        try:
            while self._link.recv(65_536):
                pass
        except ConnectionResetError:
            pass

    def close(self, abruptly: bool = False) -> None:
        if abruptly:
            self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._link.close()


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Whole frames, and what is left behind them."""
    place = len(PREFACE) if data.startswith(PREFACE) else 0
    if data and PREFACE.startswith(data):
        return b"", data
    while len(data) >= place + 9 + (size := int.from_bytes(data[place : place + 3], "big")):
        place += 9 + size
    return data[:place], data[place:]
