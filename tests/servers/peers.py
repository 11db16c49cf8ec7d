"""The network between the members of an etcd cluster, in which one of them can be cut off.

Members reach each other through a proxy in front of each. Every connection begins with an HTTP
request whose header names the member it comes from; so the proxy knows both ends of it, and a cut
can concern one pair and not another, as that of a switch does. Bytes of a cut connection are held
back in silence; after healing those connections are reset, as stale ones are.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Sequence

CHUNK = 1 << 16
HEAD_MAX = 1 << 14
NAP_S = 0.02


class _Connection:
    """One connection between two members, with a thread for each direction."""

    def __init__(self, network: PeerNetwork, to: int, client: socket.socket) -> None:
        self._network = network
        self.to = to
        self.source: str | None = None
        self.held = False
        self._client = client
        self._server = socket.create_connection(("127.0.0.1", network.targets[to]))
        self._head = b""

    def run(self) -> None:
        for source, target in ((self._client, self._server), (self._server, self._client)):
            pump = threading.Thread(target=self._pump, args=(source, target), daemon=True)
            pump.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK):
                if source is self._client and self.source is None:
                    self._read_head(data)
                while self._network.is_cut(self):
                    self.held = True
                    if self._network.closed.wait(NAP_S):
                        return
                if self.held:
                    break
                target.sendall(data)
        except OSError:
            pass
        finally:
            self.close()

    def _read_head(self, data: bytes) -> None:
        self._head = (self._head + data)[:HEAD_MAX]
        found = re.search(rb"(?i)x-server-from: *([0-9a-f]+)", self._head)
        if found is not None:
            self.source = found[1].decode().lower()

    def close(self) -> None:
        for end in (self._client, self._server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


class PeerNetwork:
    """One address in front of each member."""

    def __init__(self, targets: Sequence[int]) -> None:
        self.targets = targets
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in targets]
        self.ports = [int(listener.getsockname()[1]) for listener in self._listeners]
        self._ids: list[str] = []
        self._parted: set[int] = set()
        self.closed = threading.Event()

    def start(self) -> None:
        for number, listener in enumerate(self._listeners):
            accept = threading.Thread(target=self._accept, args=(number, listener), daemon=True)
            accept.start()

    def know(self, ids: Sequence[str]) -> None:
        """Learn the ids of the members, in hex."""
        self._ids = [one.lower() for one in ids]

    def part(self, member: int) -> None:
        """Let nothing pass to or from one member."""
        self._parted = {*self._parted, member}

    def heal(self) -> None:
        self._parted = set()

    def is_cut(self, connection: _Connection) -> bool:
        ends = {self._ids[number] for number in self._parted if number < len(self._ids)}
        return connection.to in self._parted or connection.source in ends

    def close(self) -> None:
        self.closed.set()
        for listener in self._listeners:
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()

    def _accept(self, number: int, listener: socket.socket) -> None:
        while not self.closed.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                _Connection(self, number, client).run()
            except OSError:  # the member is down
                client.close()
