"""A server before the real one: it passes requests on, counts them, and is slow or lossy on demand.

It sees whole requests, which a proxy of bytes does not: which operation it was, and when it was
carried out.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

THROTTLED = "ProvisionedThroughputExceededException"


class Front:
    """What is done with the requests that come."""

    def __init__(self, address: str) -> None:
        self.behind = address
        self.calls: list[str] = []
        """The operations, in the order in which they came."""
        self.lose: list[str] = []
        """Operations whose next answer is lost after they were carried out."""
        self.throttles = False
        """Whether writes are refused for want of capacity."""
        self.throttled = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"dynamodb://any:any@127.0.0.1:{self.port}/locks"

    def passed_on(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.behind, timeout=30)
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()


@contextmanager
def front(address: str) -> Iterator[Front]:
    """Put a front before a server, for a while."""
    state = Front(address)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            state.calls.append(operation)
            if state.throttles and operation == "UpdateItem":
                state.throttled += 1
                said = json.dumps({"__type": f"com.amazonaws#{THROTTLED}", "message": "slow down"})
                self._answer(400, {"Content-Type": "application/x-amz-json-1.0"}, said.encode())
                return
            answer = state.passed_on(dict(self.headers), body)
            if operation in state.lose:
                state.lose.remove(operation)
                self.close_connection = True
                return
            self._answer(*answer)

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
