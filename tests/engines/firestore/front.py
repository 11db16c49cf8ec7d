"""A gRPC server before the real one: it passes calls on, counts them, and loses answers on demand.

It sees whole calls, which a proxy of bytes does not: which method it was, and when it was carried
out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import grpc

SOCKET_CLOSED = "Socket closed"  # as gRPC says of a connection that ended before the answer came
LISTEN = "Listen"


class Front(grpc.GenericRpcHandler):
    """What is done with the calls that come."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self.calls: list[str] = []
        """The methods, in the order in which they came, without the listener's."""
        self.lose: list[str] = []
        """Methods whose next answer is lost after they were carried out."""
        self.refuse: dict[str, tuple[grpc.StatusCode, str]] = {}
        """By method, the status that is answered, for nothing is passed on."""
        self.hold = threading.Event()
        """While it is cleared, writes are not passed on."""
        self.hold.set()
        self.address = ""

    def url_of(self, collection: str) -> str:
        return f"firestore://fencelock-tests/{collection}?emulator={self.address}"

    def service(self, handler_call_details: Any) -> Any:
        path = str(handler_call_details.method)
        method = path.rpartition("/")[2]
        if method == LISTEN:
            return None
        self.calls.append(method)
        return grpc.unary_stream_rpc_method_handler(
            lambda request, context: self._pass_on(method, path, request, context)
        )

    def _pass_on(self, method: str, path: str, request: bytes, context: Any) -> Iterator[bytes]:
        if method in self.refuse:
            context.abort(*self.refuse[method])
        if method in ("Commit", "BatchWrite"):
            self.hold.wait(60.0)
        send: Any = self._channel.unary_stream(path, None, None)
        sent = context.invocation_metadata()
        headers = [(n, v) for n, v in sent if n.startswith(("google", "x-goog", "authorization"))]
        answers = list[bytes]()
        try:
            answers.extend(send(request, metadata=headers, timeout=60.0))
        except grpc.RpcError as error:
            status = cast("Any", error)
            context.abort(status.code(), status.details())
        if method in self.lose:
            self.lose.remove(method)
            context.abort(grpc.StatusCode.UNAVAILABLE, SOCKET_CLOSED)
        yield from answers


@contextmanager
def front(address: str) -> Iterator[Front]:
    """Put a front before a server, for a while."""
    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(16) as pool:
        state = Front(channel)
        server = grpc.server(pool, handlers=[state])
        state.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield state
        finally:
            state.hold.set()
            server.stop(None).wait()
