"""The wire for threads: botocore's client, called by threads of its own.

botocore has one time limit for all requests, and none for looking up names and credentials. So a
caller hands its request to a worker and waits for as long as its own call may last; nor does an
exception of a signal handler reach into the driver.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from botocore.config import Config
from botocore.session import Session

from ....errors import Unavailable
from ....wires.daemon_thread import start_daemon
from ....wires.thread_flag import ThreadFlag
from ....world import World
from ..settings import Settings
from . import options_of
from .errors import no_answer, told

SPARE_S = 1.0  # for what botocore does beside connecting and reading


class _Call:
    """One request, on its way through a worker."""

    __slots__ = ("answer", "done", "error", "make")

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self.make = make
        self.done = ThreadFlag()
        self.answer: dict[str, Any] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self.make()
        except Exception as error:
            self.error = error
        self.done.set()


class ThreadsWire:
    """A client of botocore with as many workers as requests were ever under way at once."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._table = {"TableName": settings.table}
        self._longest = settings.connect_timeout + settings.request_timeout + SPARE_S
        self._mutex = threading.Lock()
        self._client: Any = None
        self._idle: deque[SimpleQueue[_Call | None]] = deque()
        self._closed = False

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        table = self._settings.table
        left = min(self._world.limit() - self._world.now(), self._longest)
        if self._closed or left <= 0:
            why = "the client is closed" if self._closed else "no time is left"
            raise Unavailable(f"DynamoDB's table {table!r} was not asked: {why}")
        call = _Call(lambda: getattr(self._connected(), operation)(**self._table, **request))
        self._hand_over(call)
        if not call.done.wait(left):
            raise no_answer(operation, table, f"within {left:.1f} s")
        if call.error is not None:
            raise told(call.error, operation, table) from call.error
        return call.answer

    def _hand_over(self, call: _Call) -> None:
        try:
            self._idle.pop().put(call)
        except IndexError:
            try:
                start_daemon(lambda: self._work(call), "fencelock-dynamodb")
            except RuntimeError as error:
                raise Unavailable(f"there is no thread for a request: {error}") from error

    def _work(self, call: _Call | None) -> None:
        """Make one request after the other, until closed."""
        calls: SimpleQueue[_Call | None] = SimpleQueue()
        while call is not None:
            call.run()
            call = None  # keep nothing alive while waiting
            self._idle.append(calls)
            if self._closed:
                return
            call = calls.get()

    def _connected(self) -> Any:
        with self._mutex:
            if self._client is None:
                options = options_of(self._settings, Config)
                self._client = Session().create_client("dynamodb", **options)
            return self._client

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        """Let the workers end, and close the connections that nobody uses."""
        self._closed = True
        while self._idle:
            try:
                self._idle.popleft().put(None)
            except IndexError:
                break
        if self._client is not None:
            self._client.close()
