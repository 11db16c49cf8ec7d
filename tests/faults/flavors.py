"""One scenario, both flavors: written once as ``async def``, run by threads or by asyncio.

A Lab gives a scenario its clients and what it needs to act beside itself. Under threads the
blocking client is dressed as an asyncio one: what is awaited has already happened, so ``drive()``
runs the scenario in the calling thread. Under asyncio the scenario is simply awaited. The workers
in other processes use the same labs.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from fencelock import aio, sync
from fencelock.model import Holding
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from fencelock.worlds import clock
from fencelock.worlds.threads import drive

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SOON = 30.0  # seconds: far more than anything here takes, so that only a defect uses it up
LOOK = 0.002

FLAVORS = ("sync", "asyncio")


class Late(AssertionError):
    """Something that a test waits for has not come."""


class Job(Protocol[T_co]):
    """Something a scenario has started beside itself."""

    def done(self) -> bool: ...

    async def result(self, within: float = SOON) -> T_co: ...


class Lab:
    """What a scenario may use. Its clients are closed when it ends."""

    flavor = ""

    def __init__(self) -> None:
        self._clients: list[aio.Client] = []

    async def connect(
        self, url: str, faults: Faults | None = None, **options: object
    ) -> aio.Client:
        client = await self._connect(url, faults, options)
        self._clients.append(client)
        return client

    async def _connect(
        self, url: str, faults: Faults | None, options: dict[str, object]
    ) -> aio.Client:
        raise NotImplementedError

    def start(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        raise NotImplementedError

    async def read_line(self) -> str:
        raise NotImplementedError

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: as a part of what is tested, never to wait for somebody."""
        raise NotImplementedError

    async def until(
        self, holds: Callable[[], object], what: str = "a condition", within: float = SOON
    ) -> None:
        """Wait for something that is seen by looking."""
        give_up = clock.now() + within
        while not holds():
            if clock.now() > give_up:
                raise Late(f"{what} did not come true within {within:g} s")
            await self.let_pass(LOOK)

    async def until_queued(
        self, client: aio.Client, name: str, count: int, within: float = SOON
    ) -> None:
        """Wait until so many wait for a name."""
        give_up = clock.now() + within
        while len((await client.inspect(name)).waiters) != count:
            if clock.now() > give_up:
                raise Late(f"{count} waiters for {name!r} were not seen within {within:g} s")
            await self.let_pass(LOOK)

    async def until_all_queued(
        self, client: aio.Client, name: str, *jobs: Job[Any], within: float = SOON
    ) -> None:
        """Wait until all wait for a name, but for those who wait no more: what they wait for, or
        their own time, may be over before the last of them has come."""
        give_up = clock.now() + within
        while len((await client.inspect(name)).waiters) != sum(not job.done() for job in jobs):
            if clock.now() > give_up:
                raise Late(f"the waiters for {name!r} were not seen within {within:g} s")
            await self.let_pass(LOOK)

    async def until_held(self, client: aio.Client, name: str) -> list[Holding]:
        """Wait until somebody holds a name, and say who."""
        give_up = clock.now() + SOON
        while not (holders := await client.holders(name)):
            if clock.now() > give_up:
                raise Late(f"no holder of {name!r} was seen within {SOON:g} s")
            await self.let_pass(LOOK)
        return holders

    async def until_renewed(self, lease: aio.Lease, within: float = SOON) -> None:
        """Wait until the keeper has renewed a lease once more: at once, however long its ttl."""
        before = lease._hold.renewals
        make_due(lease)
        await self.until(lambda: lease._hold.renewals > before, "a renewal", within)
        lease.check()

    def forget(self, client: aio.Client) -> None:
        """Leave a client to the garbage collector."""
        self._clients.remove(client)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


def make_due(lease: aio.Lease | sync.Lease) -> None:
    """Have the keeper renew a lease now, so that no test needs one that a stall could outlast."""
    lease._hold.attend_at = lease._hold.grant.asked_at
    lease._core.keeper.wake()


def make_end(lease: aio.Lease | sync.Lease) -> None:
    """Have the time of a lease that cannot be renewed be over now, however long its ttl."""
    lease._hold.grant = lease._hold.grant._replace(valid_until=clock.now())
    make_due(lease)


class ThreadsLab(Lab):
    flavor = "sync"

    async def _connect(
        self, url: str, faults: Faults | None, options: dict[str, object]
    ) -> aio.Client:
        if faults is None:
            client = sync.connect(url, **options)
        else:
            client = faulty.connect(url, faults, **options)
        client.open()
        return dressed(client)

    def start(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        return _Thread(work)

    async def read_line(self) -> str:
        return sys.stdin.readline()

    async def let_pass(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # under threads nobody else is kept waiting


class AioLab(Lab):
    flavor = "asyncio"

    async def _connect(
        self, url: str, faults: Faults | None, options: dict[str, object]
    ) -> aio.Client:
        if faults is None:
            return await aio.connect(url, **options)
        return await faulty.connect_aio(url, faults, **options)

    def start(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        return _Task(asyncio.create_task(work))

    async def read_line(self) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(flavor: str, scenario: Callable[[Lab], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario in one flavor, and close what it opened."""
    if flavor == "sync":
        return drive(_through(ThreadsLab(), scenario))
    return asyncio.run(_through(AioLab(), scenario))


async def _through(lab: Lab, scenario: Callable[[Lab], Awaitable[T]]) -> T:
    try:
        return await scenario(lab)
    finally:
        await lab.close()


class _Thread(Generic[T]):
    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(drive(self._work))
        except BaseException as error:  # handed to whoever asks for the result
            self._error = error

    def done(self) -> bool:
        return not self._thread.is_alive()

    async def result(self, within: float = SOON) -> T:
        self._thread.join(within)
        if self._thread.is_alive():
            raise Late(f"a thread did not end within {within:g} s")
        if self._error is not None:
            raise self._error
        return self._value[0]


class _Task(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    def done(self) -> bool:
        return self._task.done()

    async def result(self, within: float = SOON) -> T:
        await asyncio.wait({self._task}, timeout=within)
        if not self._task.done():
            raise Late(f"a task did not end within {within:g} s")
        return self._task.result()


_AWAITED = {
    "acquire", "close", "holders", "inspect", "release", "renew", "revoke", "scan", "take_over",
    "try_acquire", "wait", "downgrade",
}  # fmt: skip
_MAKERS = {"lock", "locks", "semaphore", "rwlock", "read", "write"}


class _Dressed:
    """A blocking client, lock, lease or loss with the manners of an asyncio one; or several."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name in _AWAITED:
            return _awaited(value)
        if name in _MAKERS:
            return lambda *args, **options: _Dressed(value(*args, **options))
        return _Dressed(value) if name == "lost" else value

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inner)

    def __getitem__(self, name: str) -> _Dressed:
        return _Dressed(self._inner[name])

    async def __aenter__(self) -> _Dressed:
        return _Dressed(self._inner.__enter__())

    async def __aexit__(self, *error: object) -> None:
        self._inner.__exit__(*error)


def _awaited(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(*args: Any, **options: Any) -> Any:
        answer = method(*args, **options)
        return _Dressed(answer) if isinstance(answer, sync.Lease | sync.Leases) else answer

    return call


def dressed(client: sync.Client) -> aio.Client:
    """A blocking client that a scenario can await."""
    return cast("aio.Client", _Dressed(client))
