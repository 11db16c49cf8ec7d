"""The wire for threads: botocore's client, each request in a thread of its own.

botocore has one timeout for all requests, and none for resolving names and finding credentials. So
a caller has a thread make its request, and waits for as long as its own call may last. Nor does an
exception of a signal handler reach into the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ....errors import Unavailable
from ....wires.daemon_thread import start_daemon
from ....wires.thread_flag import ThreadFlag
from ....world import World
from ..settings import Settings
from . import new_client
from .errors import map_error, no_answer

SPARE_S = 1.0  # for what botocore does besides connecting and reading


class ThreadsWire:
    """A client of botocore, made by the first request."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._longest = settings.connect_timeout + settings.request_timeout + SPARE_S
        self._mutex = threading.Lock()
        self._client: Any = None
        self._closed = False

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        table, done, answers = self._settings.table, ThreadFlag(), list[Any]()
        left = min(self._world.limit() - self._world.now(), self._longest)
        if self._closed or left <= 0:
            why = "the client is closed" if self._closed else "no time is left"
            raise Unavailable(f"DynamoDB's table {table!r} was not asked: {why}")

        def make() -> None:
            try:
                answers.append(getattr(self._connected(), operation)(TableName=table, **request))
            except Exception as error:
                answers.append(error)
            done.set()

        try:
            start_daemon(make, "fencelock-dynamodb")
        except RuntimeError as error:
            raise Unavailable(f"there is no thread for a request: {error}") from error
        if not done.wait(left):
            raise no_answer(operation, table, f"within {left:.1f} s")
        if isinstance(answers[0], Exception):
            raise map_error(answers[0], operation, table) from answers[0]
        return dict(answers[0])

    def _connected(self) -> Any:
        with self._mutex:
            if self._client is None:
                self._client = new_client(self._settings, "botocore")
            return self._client

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        if self._client is not None:
            self._client.close()
