"""The world of asyncio: every verb is awaited by the loop that the world was made in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError
from ..world import NO_LIMIT, Adopted, Flavor, Job, Signal
from .aio_limits import Limits
from .aio_shield import Unbroken, shielded
from .aio_worker import Worker
from .host import HostWorld

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

T = TypeVar("T")

AGAIN_S = 0.25

_UNLIMITED: AbstractContextManager[None] = nullcontext()


class _Signal:
    """A flag for tasks of one loop that any thread may set."""

    __slots__ = ("_flag", "_waiters", "_world")

    def __init__(self, world: AioWorld) -> None:
        self._world = world
        self._flag = False
        self._waiters: set[asyncio.Future[bool]] = set()

    def set(self) -> None:
        self._flag = True
        if threading.get_ident() == self._world.thread:
            self._wake()
            return
        try:
            self._world.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def clear(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        return self._flag

    def _wake(self) -> None:
        if self._world.loop.is_closed():
            return  # nobody waits any more
        for waiter in self._waiters:
            _resolve(waiter, True)

    async def wait(self, delay: float | None) -> bool:
        loop = self._world.loop
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.add(waiter)
        if self._flag:  # set by another thread before the waiter was added
            _resolve(waiter, True)
        timer = None if delay is None else loop.call_later(delay, _resolve, waiter, False)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()


def _resolve(waiter: asyncio.Future[bool], value: bool) -> None:
    if not waiter.done():
        waiter.set_result(value)


class _Task:
    """A job that runs as a task."""

    def __init__(self, world: AioWorld, task: asyncio.Task[None]) -> None:
        self._world = world
        self._task = task

    async def join(self, deadline: float | None) -> bool:
        if self._task is asyncio.current_task():
            return False
        delay = None if deadline is None else max(0.0, deadline - self._world.now())
        await asyncio.wait({self._task}, timeout=delay)
        return self._task.done()


class _Kept:
    """A job whose task is started again when somebody cancels it.

    Not at once: the loop may be about to end, and a task that begins then would be left behind.
    """

    def __init__(self, world: AioWorld, start: Callable[[], asyncio.Task[None]]) -> None:
        self._world = world
        self._start = start
        self._next: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._next = None
        self._task = self._start()
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and not self._world.loop.is_closed():
            self._next = self._world.loop.call_later(AGAIN_S, self._begin)

    async def join(self, deadline: float | None) -> bool:
        ended = await _Task(self._world, self._task).join(deadline)
        if self._next is not None:
            self._next.cancel()
        return ended


class AioWorld(HostWorld):
    """World for asyncio programs. It belongs to the loop that runs when it is made."""

    flavor: Flavor = "asyncio"
    cancels = True

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._background: set[asyncio.Task[Any]] = set()
        self._limits = Limits(self)

    def admit(self) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise UsageError(
                "this client was connected in another event loop: connect once in each loop"
            )

    def who(self) -> Hashable:
        return asyncio.current_task() or self.loop

    def facts(self) -> dict[str, str | int | float | bool | None]:
        task = asyncio.current_task()
        return {**self.identity(), "task": task.get_name() if task else "callback"}

    def signal(self) -> Signal:
        return _Signal(self)

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        assert isinstance(signal, _Signal)
        if signal.is_set():
            return True
        if deadline is None:
            return await signal.wait(None)
        delay = deadline - self.now()
        if delay <= 0:
            await asyncio.sleep(0)  # a loop around an overdue wait must not starve the others
            return signal.is_set()
        return await signal.wait(delay)

    def until(self, moment: float) -> AbstractContextManager[object]:
        return _UNLIMITED if moment == NO_LIMIT else self._limits.until(moment)

    def limit(self) -> float:
        return NO_LIMIT

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        answers: list[T | Exception | None] = [None] * len(thunks)

        async def call(index: int, thunk: Callable[[], Awaitable[T]]) -> None:
            try:
                answers[index] = await thunk()
            except Exception as error:
                answers[index] = error

        pending = {self._start(call(n, t), f"fencelock-call-{n}") for n, t in enumerate(thunks)}
        try:
            while pending and (delay := deadline - self.now()) > 0:
                _, pending = await asyncio.wait(
                    pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED
                )
                if enough is not None and enough(answers):
                    break
        except asyncio.CancelledError:
            for task in pending:
                task.cancel()
            raise
        return list(answers)

    async def shield(self, work: Coroutine[Any, Any, T], plain: bool = False) -> T:
        try:
            self.admit()
        except UsageError:
            work.close()
            raise
        if plain:
            return await Unbroken(work, self.loop, self._background)
        return await shielded(work, self.loop, self._background)

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return _Task(self, self._start(work, label))

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], label: str) -> Job:
        return _Kept(self, lambda: self._start(work(), label))

    def adopt(self, label: str) -> Adopted:
        return Worker(self.loop, label)

    def _start(self, work: Coroutine[Any, Any, T], label: str) -> asyncio.Task[T]:
        try:
            task = self.loop.create_task(work, name=label)
        except RuntimeError:  # the loop is closed: the caller decides, the coroutine must not leak
            work.close()
            raise
        self._background.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._background.discard)
        return task
