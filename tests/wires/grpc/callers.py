"""Threads that share one line, and a test that knows where each of them stands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from fencelock.wires.grpc.client_threads import ThreadsClient
from fencelock.wires.grpc.server import Server
from fencelock.worlds.threads import drive
from tests.faults.flavors import SOON, ThreadsLab
from tests.wires.grpc.peer import HEADERS
from tests.wires.grpc.script import Side

T = TypeVar("T")


class Callers:
    """Threads that call over one line, and what becomes of them."""

    def __init__(self, address: str) -> None:
        self._server = Server.at(address, None)
        self.client = ThreadsClient(self._server, SOON)

    def call(self, method: str, message: bytes = b"", within: float = SOON) -> bytes:
        head = self._server.headers[f"/test/{method}", None, ()]
        return self.client.call(head, message, within)

    def start(self, method: str, within: float = SOON) -> Future[bytes]:
        """Call in a thread of its own."""
        return self.run(lambda: self.call(method, within=within))

    @staticmethod
    def run(what: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(what())
            except BaseException as error:  # handed to whoever asks
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future

    @staticmethod
    def until(holds: Callable[[], object]) -> None:
        drive(ThreadsLab().until(holds))

    def waiting(self) -> int:
        """How many wait for somebody else to read."""
        calls = self.client._frames.under_way()
        return sum(getattr(call, "wake", None) is not None for call in calls)

    def begin(self, side: Side, *withins: float) -> list[Future[bytes]]:
        """Start a call for each time limit, in this order; the first one reads."""
        calls = []
        for count, within in enumerate(withins):
            calls.append(self.start("any", within))
            assert side.next(HEADERS).number == 2 * count + 1
            self.until(partial(self._settled, count))
        return calls

    def _settled(self, waiting: int) -> bool:
        return self.waiting() == waiting and bool(self.client._reader)
