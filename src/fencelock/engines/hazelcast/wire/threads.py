"""The wire for threads: Hazelcast's client, whose own threads read and reconnect.

Making a client blocks, and ends by no deadline of ours: a thread does it for all who wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ....errors import Unavailable
from ....wires.daemon_thread import start_daemon
from ....wires.thread_flag import ThreadFlag
from ....world import World
from ..settings import Settings
from . import Done, client_class, config, listed, new_invocation
from .errors import no_answer, not_connected, told

SPARE_S = 1.0  # for what the client does beside connecting


class _Connecting:
    """A client that is being made, for all who need it."""

    def __init__(self) -> None:
        self.ended = ThreadFlag()
        self.error: Exception | None = None


class ThreadsWire:
    """A client, made by the first request, and anew when it has given up on the cluster."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._mutex = threading.Lock()
        self._client: Any = None
        self._connecting: _Connecting | None = None
        self._closed = False

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

    def _runs(self) -> bool:
        client = self._client
        return not self._closed and client is not None and client.lifecycle_service.is_running()

    def _connect(self, connecting: _Connecting) -> None:
        try:
            if not self._closed and not self._runs():
                made: Any = client_class("hazelcast.client")(**config(self._settings))
                self._client = made
                if self._closed:
                    made.shutdown()
        except Exception as error:
            connecting.error = not_connected(error, self._settings)
        self._connecting = None
        connecting.ended.set()

    def _left(self, seconds: float) -> float:
        return min(self._world.limit() - self._world.now(), seconds)

    def send(self, operation: str, arguments: Sequence[Any], done: Done, waits: bool) -> None:
        self._send(operation, arguments, done, waits)

    def _send(
        self, operation: str, arguments: Sequence[Any], done: Done, waits: bool = False
    ) -> Callable[[], bool]:
        timeout = self._settings.request_timeout
        invocation = new_invocation("hazelcast.invocation", operation, arguments, waits, timeout)

        def answered(future: Any) -> None:
            error = future.exception()
            sent = bool(invocation.sends)
            done(
                future.result() if error is None else told(error, operation, sent),
                invocation.sends > 1,
            )

        invocation.future.add_done_callback(answered)
        self._client._invocation_service.invoke(invocation)
        return lambda: bool(invocation.sends)

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        await self.connect()
        left = self._left(self._settings.request_timeout)
        if left <= 0:
            raise Unavailable("Hazelcast was not asked: no time is left")
        give_up = self._world.now() + left
        answers: list[Any] = [None] * len(requests)
        calls = list[tuple[ThreadFlag, Callable[[], bool]]]()
        for number, (operation, arguments) in enumerate(requests):
            flag = ThreadFlag()

            def done(
                answer: Any, resent: bool, number: int = number, flag: ThreadFlag = flag
            ) -> None:
                answers[number] = answer
                flag.set()

            calls.append((flag, self._send(operation, arguments, done)))
        for number, (flag, sent) in enumerate(calls):
            if not flag.wait(max(give_up - self._world.now(), 0.0)) and not flag.is_set():
                answers[number] = no_answer(requests[number][0], left, sent())
        return list(answers)

    async def put(self, table: str, key: str, value: str, ttl: float) -> None:
        await self._finish(lambda: self._client.get_map(table).set(key, value, ttl))

    async def get(self, table: str, key: str) -> str | None:
        found = await self._finish(lambda: self._client.get_map(table).get(key))
        return None if found is None else str(found)

    async def _finish(self, begin: Callable[[], Any]) -> Any:
        """Wait for a call of the client's own, which may block before it begins."""
        await self.connect()
        ended, answers = ThreadFlag(), list[Any]()

        def run() -> None:
            try:
                answers.append(begin().result())
            except Exception as error:
                answers.append(told(error, "a map of the cluster", sent=False))
            ended.set()

        start_daemon(run, "fencelock-hazelcast-map")
        left = max(self._left(self._settings.request_timeout), 0.0)
        if not ended.wait(left):
            raise no_answer("a map of the cluster", left, sent=False)
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def members(self) -> list[tuple[str, str]]:
        return listed(self._client)

    async def close(self) -> None:
        self._closed = True
        if self._client is not None:
            ended = ThreadFlag()

            def shut_down() -> None:
                self._client.shutdown()
                ended.set()

            start_daemon(shut_down, "fencelock-hazelcast-close")
            ended.wait(SPARE_S)

    def close_nowait(self) -> None:
        self._closed = True
        if self._client is not None:
            try:
                start_daemon(self._client.shutdown, "fencelock-hazelcast-close")
            except RuntimeError:
                pass  # the process ends: no thread is started any more
