"""Run work that no cancellation ends: a release, and the undo of half an acquire.

Two ways to the same promise: the caller sees its cancellation once the work has ended, or
``GRACE_S`` later, and then the work goes on in a task of its own. ``shielded`` lets the work run as
such a task from the start, whatever it does. ``Unbroken`` runs it within the calling task, which is
quicker, and is for work that waits for nothing but futures. A caller that was cancelled at its own
deadline had its grace before, and waits ``MOMENT_S`` for work that ends at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from ..errors import OutcomeUnknown
from ..world import GRACE_S
from .aio_limits import TIME_IS_OVER

MOMENT_S = 0.1

T = TypeVar("T")
Tasks = set[asyncio.Task[Any]]


async def shielded(
    work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, background: Tasks
) -> T:
    """Run the work to its end in a task of its own."""
    return await _outcome(_begin(work, loop, background), loop, None)


class Unbroken(Generic[T]):
    """Work that runs within the task that awaits it, until that is cancelled.

    A cancellation during its first future reaches the work as OutcomeUnknown, which it resolves.
    After any cancellation the work goes on in a task of its own.
    """

    __slots__ = ("_background", "_loop", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, background: Tasks
    ) -> None:
        self._work = work
        self._loop = loop
        self._background = background

    def __await__(self) -> Generator[Any, None, T]:
        work, cancelled = self._work, None
        try:
            awaited = work.send(None)
            try:
                yield awaited  # the future itself: quickest, and cancelled if we are
            except asyncio.CancelledError as error:
                cancelled = error
                awaited = work.throw(OutcomeUnknown("the caller was cancelled meanwhile"))
            except Exception as error:  # the future's own error goes to the work
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
            while cancelled is None:
                try:
                    yield from self._follow(awaited)
                except asyncio.CancelledError as error:
                    cancelled = error
                else:
                    awaited = work.send(None)
        except StopIteration as stop:
            if cancelled is None:
                return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any
            raise cancelled from None
        except BaseException:
            work.close()
            if cancelled is None:
                raise
            raise cancelled from None
        task = _begin(self._go_on(awaited), self._loop, self._background)
        return (yield from _outcome(task, self._loop, cancelled).__await__())

    async def _go_on(self, awaited: asyncio.Future[Any] | None) -> T:
        """Run the work to its end from where it waits for a future."""
        try:
            while True:
                await _Waiting(self, awaited)
                awaited = self._work.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            self._work.close()

    def _follow(self, awaited: asyncio.Future[Any] | None) -> Generator[Any, None, None]:
        """Wait until a future of the work is done, without retrieving its outcome."""
        if awaited is None:  # sleep(0): it only lets other tasks run
            yield None
        while awaited is not None and not awaited.done():
            awaited._asyncio_future_blocking = False  # as a task does with a future it is given
            follower: asyncio.Future[None] = self._loop.create_future()
            awaited.add_done_callback(partial(_end, follower))
            yield from follower


class _Waiting:
    """Awaited by the task that goes on with the work."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Unbroken[Any], awaited: asyncio.Future[Any] | None) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, None]:
        return self._work._follow(self._awaited)  # pyright: ignore[reportPrivateUsage]


def _begin(
    work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, background: Tasks
) -> asyncio.Task[T]:
    task = loop.create_task(work)
    # asyncio.run ends by cancelling every task that is registered, this one included.
    asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
    background.add(task)
    task.add_done_callback(background.discard)
    return task


async def _outcome(
    task: asyncio.Task[T],
    loop: asyncio.AbstractEventLoop,
    cancelled: asyncio.CancelledError | None,
) -> T:
    """Wait for the task; after a cancellation of the caller, only for its grace."""
    give_up = None if cancelled is None else loop.time() + _grace(cancelled)
    while not task.done() and (give_up is None or loop.time() < give_up):
        ended = loop.create_future()  # not the task itself: it must not be cancelled
        on_done = partial(_end, ended)
        task.add_done_callback(on_done)
        timer = None if give_up is None else loop.call_at(give_up, _end, ended, None)
        try:
            await ended
        except asyncio.CancelledError as error:
            cancelled, give_up = error, give_up or loop.time() + _grace(error)
        finally:
            task.remove_done_callback(on_done)
            if timer is not None:
                timer.cancel()
    if cancelled is None:
        return task.result()
    task.add_done_callback(_retrieve)
    raise cancelled


def _grace(cancelled: asyncio.CancelledError) -> float:
    return MOMENT_S if TIME_IS_OVER in cancelled.args else GRACE_S


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve an exception that nobody else will: the caller must see the cancellation."""
    if not task.cancelled():
        task.exception()


def _end(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():
        waiter.set_result(None)
