"""Work that no cancellation ends: what gives a lock back, and what undoes half an acquire.

Two ways to the same promise, that the caller sees its cancellation only once the work has ended.
``shielded`` lets the work run as a task of its own, whatever it does. ``Unbroken`` runs it within
the task that asks, which is quicker, and is for work that waits for nothing but futures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from ..errors import OutcomeUnknown

T = TypeVar("T")


async def shielded(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run the work to its end in a task of its own."""
    task = loop.create_task(work)
    # asyncio.run ends by cancelling every task that is registered, this one included.
    asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        ended = loop.create_future()  # not the task itself: it must not be cancelled
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


class Unbroken(Generic[T]):
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
