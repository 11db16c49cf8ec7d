"""A server of the package ``grpcio``, which shares no code with ours."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import grpc

WORKERS = 80
LARGE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
CODES = {code.value[0]: code for code in grpc.StatusCode}

Handle = Callable[[bytes, grpc.ServicerContext], bytes]


class GrpcServer(grpc.GenericRpcHandler):
    """Serves some methods below ``/test/``, and counts what reached them."""

    def __init__(
        self,
        options: Mapping[str, int] | None = None,
        certificate: tuple[bytes, bytes] | None = None,
        port: int = 0,
    ) -> None:
        """``certificate`` is a key and what it belongs to, in PEM format."""
        self.acted: Counter[bytes] = Counter()
        """Each request that came, and how often; requests of tests differ from each other."""
        self.peers: set[str] = set()
        """From where calls came: one for each connection."""
        self.released = threading.Event()
        """Until then, ``hang`` does."""
        self.meeting: threading.Barrier | None = None
        """Where ``meet`` waits for others."""
        self._mutex = threading.Lock()
        self._methods: dict[str, Handle] = {
            "/test/echo": lambda request, _: request,
            "/test/hang": self._hang,
            "/test/meet": self._meet,
            "/test/linger": self._linger,
            "/test/status": self._status,
            "/test/about": self._about,
        }
        self._pool = ThreadPoolExecutor(WORKERS)
        self._server = grpc.server(
            self._pool, [self], options=[*LARGE, ("grpc.so_reuseport", 0), *(options or {}).items()]
        )
        where = f"127.0.0.1:{port}"
        if certificate is None:
            self.port = self._server.add_insecure_port(where)
        else:
            self.port = self._server.add_secure_port(
                where, grpc.ssl_server_credentials([certificate])
            )
        self.address = f"127.0.0.1:{self.port}"
        self._server.start()

    def __enter__(self) -> GrpcServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self, grace: float | None = None) -> None:
        """Take no more calls; those under way end after the time of grace, at once without."""
        stopped = self._server.stop(grace)
        if grace is None:
            self.released.set()
            stopped.wait()
            self._pool.shutdown()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = str(handler_call_details.method)
        if method == "/test/flow":
            return grpc.stream_stream_rpc_method_handler(self._flow)
        handle = self._methods.get(method)
        if handle is None:
            return None

        def act(request: bytes, context: grpc.ServicerContext) -> bytes:
            with self._mutex:
                self.acted[request] += 1
                self.peers.add(str(context.peer()))
            return handle(request, context)

        return grpc.unary_unary_rpc_method_handler(act)

    def _hang(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        self.released.wait()
        return request

    def _meet(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        assert self.meeting is not None
        self.meeting.wait(10)
        return request

    def _linger(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        """Take a time that differs from call to call."""
        sleep(hash(request) % 7 / 1000)
        return request

    def _status(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        code, _, details = request.decode().partition(":")
        context.abort(CODES[int(code)], details)

    def _about(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        about = {pair[0]: pair[1] for pair in context.invocation_metadata()}
        return str(about.get(request.decode(), "none")).encode()

    def _flow(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Answer each message by two, until one wants the end."""
        for request in requests:
            with self._mutex:
                self.acted[request] += 1
            if request == b"end":
                return
            if request == b"fail":
                context.abort(grpc.StatusCode.ABORTED, "as wanted")
            yield request
            yield request.upper()
