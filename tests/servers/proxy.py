"""The proxy of the tests: that of ``fencelock torture``, with counters.

with Proxy(server.port) as proxy:
    client = fencelock.connect(f"redis://{proxy.address}/0")
    proxy.count_from_now()
    client.lock("seat").acquire()
    assert proxy.requests == 1
"""

from __future__ import annotations

from fencelock.judge.torture import proxy


class Proxy(proxy.Proxy):
    """It counts connections, requests and bytes."""

    def __init__(self, to: int, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(to, host, port)
        self.connections = 0
        """How many connections were opened."""
        self.requests = 0
        """How many requests were begun: one for each round trip."""
        self.sent = 0
        """Bytes from clients to the server."""
        self.received = 0
        """Bytes from the server to clients."""

    def count_from_now(self) -> None:
        """Set all counters to zero; connections that are open keep their state."""
        self._command(self._forget)

    def _forget(self) -> None:
        self.connections = self.requests = self.sent = self.received = self.lost = 0

    @property
    def open(self) -> int:
        """How many connections are open."""
        return self._call(lambda: len(self._open_connections))

    def waiting(self) -> int:
        """Return how many bytes wait in the proxy."""
        return self._call(
            lambda: sum(
                flow.waiting for connection in self._open_connections for flow in connection.flows
            )
        )

    def _accept(self) -> None:
        before = len(self._open_connections)
        super()._accept()
        self.connections += len(self._open_connections) - before

    def _take_request(
        self, connection: proxy.ProxyConnection, flow: proxy.Flow, data: bytes
    ) -> None:
        self.sent += len(data)
        self.requests += connection.answered
        super()._take_request(connection, flow, data)

    def _take_reply(self, connection: proxy.ProxyConnection, flow: proxy.Flow, data: bytes) -> None:
        self.received += len(data)
        super()._take_reply(connection, flow, data)
