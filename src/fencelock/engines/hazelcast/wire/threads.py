"""The wire for threads: Hazelcast's own client, whose threads read and reconnect.

Creating a client blocks, without regard to a caller's deadline: a separate thread does it for all
callers. Another thread sends all requests, so that no exception of a signal handler is raised
inside the client.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ....errors import Unavailable
from ....wires.caller_thread import CallerThread
from ....wires.daemon_thread import start_daemon
from ....wires.thread_flag import ThreadFlag
from ....world import World
from ..settings import Settings
from . import SPARE_S, UNANSWERED, ClientRequest, ClientWire
from .errors import no_answer, not_connected


class _Connecting:
    """A client that is being created, on behalf of all callers."""

    def __init__(self) -> None:
        self.ended = ThreadFlag()
        self.error: Exception | None = None


class ThreadsWire(ClientWire):
    """A client, created by the first request, and again when it has given up on the cluster."""

    package, invocations = "hazelcast.client", "hazelcast.invocation"

    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(settings)
        self._world = world
        self._mutex = threading.Lock()
        self._connecting: _Connecting | None = None
        self._caller = CallerThread("fencelock-hazelcast-caller")

    def _invoke(self, invocation: Any) -> None:
        client = self._client

        def invoke() -> None:
            try:
                client._invocation_service.invoke(invocation)
            except Exception as error:
                invocation.future.set_exception(error)

        try:
            self._caller.submit(invoke)
        except RuntimeError as error:
            raise Unavailable(f"there is no thread to send a request: {error}") from error

    def _hang_up(self, connection: Any) -> None:
        connection.close_connection(UNANSWERED, None)

    async def connect(self) -> None:
        if self._runs():
            return
        with self._mutex:
            connecting = self._connecting
            if connecting is None:
                connecting = self._connecting = _Connecting()
                try:
                    start_daemon(lambda: self._connect(connecting), "fencelock-hazelcast")
                except RuntimeError as error:
                    self._connecting = None
                    raise Unavailable(f"there is no thread to connect: {error}") from error
        longest = self._settings.connect_timeout + self._settings.request_timeout + SPARE_S
        if not connecting.ended.wait(max(self._left(longest), 0.0)):
            raise not_connected(None, self._settings)
        if connecting.error is not None:
            raise connecting.error
        if not self._runs():
            raise Unavailable("this client of Hazelcast is closed")

    def _connect(self, connecting: _Connecting) -> None:
        try:
            if not self._closed and not self._runs():
                made = self._client = self._new_client()
                if self._closed:
                    made.shutdown()
        except Exception as error:
            connecting.error = not_connected(error, self._settings)
        self._connecting = None
        connecting.ended.set()

    def _left(self, seconds: float) -> float:
        return min(self._world.limit() - self._world.now(), seconds)

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        await self.connect()
        left = self._left(self._settings.request_timeout)
        if left <= 0:
            raise Unavailable("Hazelcast was not asked: no time is left")
        give_up = self._world.now() + left
        answers: list[Any] = [None] * len(requests)
        calls = list[tuple[ThreadFlag, ClientRequest]]()
        for number, (operation, arguments) in enumerate(requests):
            flag = ThreadFlag()

            def done(answer: Any, _: bool, number: int = number, flag: ThreadFlag = flag) -> None:
                answers[number] = answer
                flag.set()

            calls.append((flag, self.request(operation, arguments, done)))
            calls[-1][1].send()
        for number, (flag, request) in enumerate(calls):
            if not flag.wait(max(give_up - self._world.now(), 0.0)) and not flag.is_set():
                answers[number] = no_answer(requests[number][0], left, request.was_sent)
                self._missed(request)
        return list(answers)

    async def close(self) -> None:
        self._closed, ended, client = True, ThreadFlag(), self._client

        def shut_down() -> None:
            client.shutdown()
            ended.set()

        if client is not None:
            start_daemon(shut_down, "fencelock-hazelcast")
            ended.wait(SPARE_S)
        self._caller.end()

    def close_nowait(self) -> None:
        self._closed = True
        self._caller.end()
        if self._client is not None:
            try:
                start_daemon(self._client.shutdown, "fencelock-hazelcast")
            except RuntimeError:
                pass  # the process is ending: no thread can be started
