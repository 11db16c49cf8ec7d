"""Fencelock as a contestant: an engine's own file adds its name, its works and its URL.

Peers are measured with their defaults, and so are we: a ttl of 30 s, renewal on.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import fencelock
import fencelock.aio
from bench.aio import AioContestant, Pairs
from bench.contestant import Contestant, Held, Lock, Session, Target
from fencelock.worlds import clock

RECIPES = frozenset({"sharing", "election", "windows"})
RECIPE_TARGETS: Mapping[str, tuple[Target, ...]] = {
    "sharing": (
        Target("semaphore_x", "at most", 1.5),
        Target("read_x", "at most", 1.5),
        Target("crowd_x", "at most", 1.2),
    ),
    "election": (
        Target("resigned_ms", "at most", 50.0),
        Target("beyond_s", "at most", 0.5),
    ),
    "windows": (
        Target("twice", "at most", 0.0),
        Target("left_out", "at most", 0.0),
    ),
}


class Ours(Contestant):
    """A fencelock engine, used from threads."""

    @abstractmethod
    def url(self) -> str:
        """What to connect to."""

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(fencelock.connect(self.url()), traced)

    def hold(
        self, count: int, ttl: float, ready: Callable[[], None], observe: Callable[[], None]
    ) -> int:
        """Hold so many leases with renewal; return how many were ours until they were released.

        `ready` is called when one lease was taken and left, so that all is loaded; `observe` while
        all are held.
        """
        with fencelock.connect(self.url()) as client:
            client.lock("first").acquire().release()
            ready()
            leases = [client.lock(f"lease:{n}", ttl=ttl).acquire() for n in range(count)]
            observe()
            return sum([lease.release() for lease in leases])

    def import_line(self) -> str:
        return "import fencelock"

    def first_use(self) -> str:
        return f"""
import fencelock
with fencelock.connect({self.url()!r}) as client:
    with client.lock("first"):
        pass
"""


class _Session(Session):
    def __init__(self, client: fencelock.Client, traced: bool) -> None:
        self._client = client
        self._traced = traced

    def lock(self, name: str) -> Lock:
        lock = _Lock(self._client.lock(name))
        if self._traced:
            _trace(self._client, lock)
        return lock

    def semaphore(self, name: str, limit: int) -> Lock:
        return _Lock(self._client.semaphore(name, limit=limit))

    def reader(self, name: str) -> Lock:
        return _Lock(self._client.rwlock(name).read())

    def writer(self, name: str) -> Lock:
        return _Lock(self._client.rwlock(name).write())

    def candidate(self, name: str, ttl: float) -> Lock:
        return _Candidate(self._client.election(name, ttl=ttl))

    def do_once(self, name: str, every: float, wall_s: float, work: Callable[[], None]) -> None:
        clock.wall_us = lambda: int(wall_s * 1e6)
        with self._client.once(name, every=every) as turn:
            if turn:
                work()

    def close(self) -> None:
        self._client.close()


class _Lock(Lock):
    def __init__(self, lock: fencelock.Lock) -> None:
        self._acquire = lock.acquire

    def acquire(self) -> int:
        self._lease = self._acquire()
        return self._lease.fence

    def release(self) -> None:
        self._lease.release()


class _Candidate(Lock):
    def __init__(self, election: fencelock.Election) -> None:
        self._election = election

    def acquire(self) -> int:
        return self._election.campaign().fence

    def release(self) -> None:
        self._election.resign()


class OursAio(Ours, AioContestant):
    """A fencelock engine, used from asyncio."""

    def connect(self, *, traced: bool = False) -> Session:
        return _AioSession(self.url(), traced)

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self.url())

    def wait_idly(self, name: str, count: int, observe: Callable[[], None]) -> None:
        asyncio.run(self._wait_idly(name, count, observe))

    async def _wait_idly(self, name: str, count: int, observe: Callable[[], None]) -> None:
        async with fencelock.aio.connect(self.url()) as client:
            waiters = [asyncio.create_task(client.lock(name).acquire()) for _ in range(count)]
            await asyncio.to_thread(observe)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)

    def hold(
        self, count: int, ttl: float, ready: Callable[[], None], observe: Callable[[], None]
    ) -> int:
        return asyncio.run(self._hold(count, ttl, ready, observe))

    async def _hold(
        self, count: int, ttl: float, ready: Callable[[], None], observe: Callable[[], None]
    ) -> int:
        async with fencelock.aio.connect(self.url()) as client:
            await (await client.lock("first").acquire()).release()
            await asyncio.to_thread(ready)
            leases = [await client.lock(f"lease:{n}", ttl=ttl).acquire() for n in range(count)]
            await asyncio.to_thread(observe)
            return sum([await lease.release() for lease in leases])

    def import_line(self) -> str:
        return "import fencelock.aio"

    def first_use(self) -> str:
        return f"""
import asyncio, fencelock.aio
async def main():
    async with fencelock.aio.connect({self.url()!r}) as client:
        async with client.lock("first"):
            pass
asyncio.run(main())
"""


class _AioSession(Session):
    """Asyncio for works that are written with blocking calls: the loop runs during each of them.

    Starting and stopping the loop around each call is counted as ours, though no program does it.
    Turns are taken as programs do, by a task that goes on.
    """

    def __init__(self, url: str, traced: bool) -> None:
        self._runner = asyncio.Runner()
        self._run = self._runner.get_loop().run_until_complete  # `run` handles Ctrl-C each time
        self._client = self._run(_connected(url))
        self._traced = traced

    def lock(self, name: str) -> Lock:
        lock = _AioLock(self._client.lock(name), self._run)
        if self._traced:
            self._run(self._trace(lock))
        return lock

    async def _trace(self, lock: Lock) -> None:
        _trace(self._client, lock)  # in the loop: elsewhere a client of fencelock.aio has no engine

    def take_turns(self, lock: Lock, ask: Callable[[int], int]) -> list[Held]:
        turns: list[Held] = self._run(self._take_turns(lock, ask))
        return turns

    async def _take_turns(self, lock: Lock, ask: Callable[[int], int]) -> list[Held]:
        assert isinstance(lock, _AioLock)
        acquire = lock.wrapped.acquire
        clock = time.monotonic_ns
        log: list[Held] = []
        while asked := ask(len(log)):
            lock.joined_ns = 0
            lease = await acquire()
            got, joined = clock(), lock.joined_ns
            left = clock()
            await lease.release()
            log.append(Held(asked, joined, got, left, lease.fence))
        return log

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()


class _AioLock(Lock):
    def __init__(
        self, lock: fencelock.aio.Lock, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self.wrapped = lock
        self._run = run
        self._lease: fencelock.aio.Lease

    def acquire(self) -> int:
        self._lease = self._run(self.wrapped.acquire())
        return self._lease.fence

    def release(self) -> None:
        self._run(self._lease.release())


async def _connected(url: str) -> fencelock.aio.Client:
    return await fencelock.aio.connect(url)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Pairs]:
    async with fencelock.aio.connect(url) as client:

        async def pairs(name: str, count: int) -> None:
            lock = client.lock(name)
            for _ in range(count):
                await (await lock.acquire()).release()

        yield pairs


def _trace(client: fencelock.Client | fencelock.aio.Client, lock: Lock) -> None:
    """Note when the engine first answers that a wait stands in its queue.

    Only the engine's own answer proves it, and no event tells it: so this reaches into the client.
    """
    engine = client._core.engine
    ask = engine.acquire
    asked_for = ""

    async def acquire(request: Any) -> Any:
        nonlocal asked_for
        answer = await ask(request)
        if getattr(answer, "queued", False) and request.owner != asked_for:
            asked_for = request.owner
            lock.joined_ns = time.monotonic_ns()
        return answer

    engine.acquire = acquire  # type: ignore[method-assign]
