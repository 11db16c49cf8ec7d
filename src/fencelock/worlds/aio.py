"""The world of asyncio: every verb is awaited natively by the loop that the world was made in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from ..errors import OutcomeUnknown, Unavailable, UsageError
from ..world import Adopted, Flavor, Job, Signal
from .host import HostWorld

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


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
        for waiter in self._waiters:
            _settle(waiter, True)

    async def wait(self, delay: float | None) -> bool:
        loop = self._world.loop
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.add(waiter)
        if self._flag:  # set by another thread before we were in the list
            _settle(waiter, True)
        timer = None if delay is None else loop.call_later(delay, _settle, waiter, False)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()


class _Unbroken(Generic[T]):
    """Work that runs within the task that awaits it, and that no cancellation ends.

    The first cancellation reaches it as an unknown outcome, which it resolves. From then on the
    task waits for other futures that follow those of the work: only they are cancelled. The
    cancellation is kept until the work has ended.
    """

    __slots__ = ("_loop", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop

    def __await__(self) -> Generator[Any, None, T]:
        work, cancelled = self._work, None
        try:
            awaited = work.send(None)
            try:
                yield awaited  # itself, which is quickest; and if we are cancelled, so is it
            except asyncio.CancelledError as error:
                cancelled = error
                awaited = work.throw(OutcomeUnknown("the caller was cancelled meanwhile"))
            except Exception as error:  # what the future ended with is for the work to know
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
            while True:
                while awaited is None or not awaited.done():
                    try:
                        if awaited is None:  # it only lets others have a turn
                            yield None
                            break
                        yield from self._follow(awaited)
                    except asyncio.CancelledError as error:
                        cancelled = error
                awaited = work.send(None)
        except StopIteration as stop:
            if cancelled is None:
                return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any
        except BaseException:
            if cancelled is None:
                raise
        finally:
            work.close()
        raise cancelled

    def _follow(self, awaited: asyncio.Future[Any]) -> asyncio.Future[None]:
        awaited._asyncio_future_blocking = False  # what a task does with a future it is given
        follower: asyncio.Future[None] = self._loop.create_future()
        awaited.add_done_callback(partial(_end, follower))
        return follower


def _end(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _settle(waiter: asyncio.Future[bool], value: bool) -> None:
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


_Call = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Worker:
    """An adopted client: its calls run in order on one thread of its own.

    A call that was cancelled runs to its end all the same; what is called next finds it done. A
    queue and one hop back is all it takes: an executor would make two futures for each call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, label: str) -> None:
        self._loop = loop
        self._label = label
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = False
        self._closed = False

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._closed:
            raise Unavailable("the client is closed")
        if not self._started:
            self._started = True
            target = (self._calls, self._loop)
            threading.Thread(target=_work, args=target, name=self._label, daemon=True).start()
        future: asyncio.Future[R] = self._loop.create_future()
        self._calls.put((future, method, args, kwargs))
        return await future

    async def close(self) -> None:
        self._closed = True
        self._calls.put(None)

    def __del__(self) -> None:
        self._calls.put(None)


def _work(calls: SimpleQueue[_Call | None], loop: asyncio.AbstractEventLoop) -> None:
    while (call := calls.get()) is not None:
        future, method, args, kwargs = call
        result, error = None, None
        try:
            result = method(*args, **kwargs)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_deliver, future, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
        del call, future, method, args, kwargs, result, error  # keep nothing alive while waiting


def _deliver(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return  # cancelled: nobody asks any more
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class AioWorld(HostWorld):
    """World for asyncio programs. It belongs to the loop that runs when it is made."""

    flavor: Flavor = "asyncio"
    cancels = True

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._background: set[asyncio.Task[Any]] = set()

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

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        answers: list[T | Exception | None] = [None] * len(thunks)

        async def call(place: int, thunk: Callable[[], Awaitable[T]]) -> None:
            try:
                answers[place] = await thunk()
            except Exception as error:
                answers[place] = error

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
            return await _Unbroken(work, self.loop)
        task = self.loop.create_task(work)
        # asyncio.run ends by cancelling every task that is registered, this one included.
        asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            ended = self.loop.create_future()  # not the task itself: it must not be cancelled
            task.add_done_callback(partial(_end, ended))
            try:
                await ended
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            if not task.cancelled():
                task.exception()  # looked at: the cancellation is what the caller must see
            raise cancelled
        return task.result()

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return _Task(self, self._start(work, label))

    def adopt(self, label: str) -> Adopted:
        return _Worker(self.loop, label)

    def _start(self, work: Coroutine[Any, Any, T], label: str) -> asyncio.Task[T]:
        task = self.loop.create_task(work, name=label)
        self._background.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._background.discard)
        return task
