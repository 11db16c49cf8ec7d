"""Threads and tasks share a connection: each gets its own answers, whatever happens to others."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol, cast
from weakref import ref

import pytest

import fencelock
import fencelock.aio
from fencelock import OutcomeUnknown
from fencelock.engine import Address
from fencelock.engines.redis.settings import settings
from fencelock.engines.redis.wire.connection import packed
from fencelock.engines.redis.wire.connection_threads import Stale, ThreadsConnection, _Queued
from fencelock.engines.redis.wire.pool_threads import ThreadsFastPath
from tests.engines.uncollected import Local, uncollected
from tests.servers.redis import Redis
from tests.servers.server import until
from tests.servers.shared import shared

THREADS = 24
ROUNDS = 150


class Interrupted(Exception):
    """What a signal raises in the middle of anything."""


class Asker(Protocol):
    """A way to request over a connection."""

    def __call__(self, connection: ThreadsConnection, payload: bytes) -> object: ...


class NoOther:
    """A pool that has no other connection to offer."""

    def request_now(self, *_: object) -> object:
        raise Stale

    def now(self) -> float:
        return 0.0

    def limit(self) -> float:
        return float("inf")


def ask_connection(connection: ThreadsConnection, payload: bytes) -> object:
    (reply,) = connection.request(payload, 1, 10.0)
    return reply


def ask_directly(connection: ThreadsConnection, payload: bytes) -> object:
    path = ThreadsFastPath(cast("Any", NoOther()), connection.node)
    path._connection = connection
    return path.direct(payload, 10.0)


ways = pytest.mark.parametrize("ask", [ask_connection, ask_directly])


@pytest.fixture
def connection() -> Iterator[ThreadsConnection]:
    server = shared(Redis)
    where = settings(Address("redis", (("127.0.0.1", server.port),)))
    connection = ThreadsConnection(where, where.nodes[0])
    yield connection
    connection.close()


def echo(ask: Asker, connection: ThreadsConnection, text: str) -> bool:
    return bool(ask(connection, packed("ECHO", text)) == text.encode())


def hammer(
    ask: Asker, connection: ThreadsConnection, number: int, wrong: list[str], rounds: int = ROUNDS
) -> None:
    for turn in range(rounds):
        try:
            if not echo(ask, connection, f"{number}-{turn}"):
                wrong.append(f"{number}-{turn}")
        except (OutcomeUnknown, Stale):
            return


@ways
def test_every_thread_gets_its_own_answer(ask: Asker, connection: ThreadsConnection) -> None:
    wrong: list[str] = []
    threads = [
        threading.Thread(target=hammer, args=(ask, connection, n, wrong)) for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


@ways
def test_a_thread_that_is_interrupted_leaves_nobody_waiting(ask: Asker) -> None:
    """H12: at whatever moment it is; its connection is given up, and the others get to know."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise Interrupted

    server = shared(Redis)
    where = settings(Address("redis", (("127.0.0.1", server.port),)))
    old = signal.signal(signal.SIGALRM, interrupt)
    wrong: list[str] = []
    try:
        for _ in range(60):
            connection = ThreadsConnection(where, where.nodes[0])
            threads = [
                threading.Thread(target=hammer, args=(ask, connection, n, wrong, 20), daemon=True)
                for n in range(6)
            ]
            for thread in threads:
                thread.start()
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))
                hammer(ask, connection, 99, wrong, 200)
                time.sleep(0.01)
            except Interrupted:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for thread in threads:
                thread.join(20)
            assert not any(thread.is_alive() for thread in threads)
            connection.close()
    finally:
        signal.signal(signal.SIGALRM, old)
    assert wrong == []


class OnceInterrupted(deque[object]):
    """A queue whose first reader is interrupted when it has read all."""

    hit = False

    def __iter__(self) -> Iterator[object]:
        yield from super().__iter__()
        if not self.hit:
            self.hit = True
            raise Interrupted


def test_a_leader_that_is_interrupted_passes_the_turn_on_once(
    connection: ThreadsConnection,
) -> None:
    """Passed on twice, two threads would read from one connection."""
    met: list[BaseException] = []

    def ask() -> None:
        try:
            echo(ask_connection, connection, "any")
        except (Interrupted, OutcomeUnknown, Stale, RuntimeError) as error:
            met.append(error)

    connection.turn.acquire()  # as one who asks at this moment
    connection.queue = OnceInterrupted()  # type: ignore[assignment]
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(connection.queue) == 3, "all to queue")
    connection._appoint()
    for thread in threads:
        thread.join(30)
    kinds = sorted(type(error).__name__ for error in met)
    assert kinds == ["Interrupted", "OutcomeUnknown", "OutcomeUnknown"]
    assert not connection.turn.locked()


def test_threads_with_different_locks_need_one_connection() -> None:
    with Redis() as server, fencelock.connect(server.url) as client:
        before = server.clients()

        def work(number: int) -> None:
            for _ in range(20):
                client.lock(f"lock:{number}").acquire().release()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert server.clients() == before
        assert client.scan("lock:") == []


def test_tasks_with_different_locks_need_one_connection() -> None:
    async def main(server: Redis) -> None:
        async with fencelock.aio.connect(server.url) as client:
            before = server.clients()

            async def work(number: int) -> None:
                for _ in range(5):
                    await (await client.lock(f"lock:{number}").acquire()).release()

            await asyncio.gather(*(work(n) for n in range(200)))
            assert server.clients() == before
            assert await client.scan("lock:") == []

    with Redis() as server:
        asyncio.run(main(server))


def test_a_cancelled_task_does_not_take_anothers_answer() -> None:
    """H12."""

    async def main() -> None:
        async with fencelock.aio.connect(shared(Redis).fresh_url()) as client:
            fences: dict[str, int] = {}

            async def work(number: int) -> None:
                lease = await client.lock(f"lock:{number}", ttl=60).acquire()
                fences[lease.name] = lease.fence

            tasks = [asyncio.create_task(work(n)) for n in range(100)]
            await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            held = {holding.name: holding.fence for holding in await client.scan("lock:")}
            assert held == fences
            assert len(fences) == 100 - len(tasks[::3])

    with pytest.warns(ResourceWarning):  # the leases are dropped on purpose
        asyncio.run(main())


def test_who_is_led_by_a_thread_that_is_interrupted_twice_does_not_take_nothing_for_an_answer(
    connection: ThreadsConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second exception comes before the first one could be turned into an error for others."""

    def interrupted(*_: object) -> object:
        raise Interrupted

    led = _Queued(packed("PING"), 1)
    connection.queue.append(led)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(connection, "exchange", interrupted)
        patch.setattr(connection, "close", interrupted)  # the first thing that is done about it
        connection._lead(_Queued(b"", 1), 1.0)
    assert led.told
    assert isinstance(led.error, OutcomeUnknown)


@pytest.mark.parametrize("how", ["closed", "cut off"])
def test_an_error_is_not_kept_by_the_request_that_raised_it(
    connection: ThreadsConnection, how: str
) -> None:
    """Its traceback has all frames of the caller, and what they have: the connection, for one."""
    known: list[ref[Local]] = []

    def queue_up() -> None:
        local = Local()
        known.append(ref(local))
        connection.queue_up(packed("ECHO", "words"), 1, 10.0)

    expected: type[Exception] = Stale
    if how == "closed":
        connection.close()
    else:
        connection.socket.shutdown(socket.SHUT_RDWR)
        expected = OutcomeUnknown
    with uncollected():
        with suppress(expected):
            queue_up()
        assert known.pop()() is None
