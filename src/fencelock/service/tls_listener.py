"""Accept connections with TLS: a handshake counts as a connection, and has to end soon.

Uvicorn counts a connection when its handshake is done, and leaves a minute for that: clients that
begin none could use up all descriptors.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection

from .protocol import connections_max, refuse_connection

HANDSHAKE_S = 10.0
ACCEPTED_AT_ONCE = 100  # before others have their turn
RETRY_S = 1.0  # after there were no descriptors


class TlsListener:
    """A listening socket whose connections are handed over after their handshake."""

    def __init__(
        self,
        listener: socket.socket,
        backlog: int,
        context: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Collection[object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._context = context
        self._make_protocol = make_protocol
        self._connections = connections
        """The connections whose handshake is done."""
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        listener.listen(backlog)
        self._listen()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(RETRY_S, self._listen)
                return
            if len(self._connections) + len(self._handshakes) >= connections_max():
                refuse_connection(peer.close)
                continue
            task = self._loop.create_task(self._shake_hands(peer))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        try:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._make_protocol, peer, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # it disconnected, spoke no TLS or took too long
            peer.close()

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no handshake is under way."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)
