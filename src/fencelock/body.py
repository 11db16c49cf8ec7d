"""The body of an ``async with``: cancelled when its lease is lost, so that the block raises
LeaseLost.

The bookkeeping is that of ``asyncio.timeout``: our own cancellation is told from one that somebody
else asked for by counting, and only ours is turned into LeaseLost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .errors import LeaseLost

if TYPE_CHECKING:
    from .core import Core
    from .logic.tenure import Tenure


class Body:
    """The task that works under a lease. Calling it cancels the task."""

    __slots__ = ("cancelling", "fired", "level", "task")

    def __init__(self, task: asyncio.Task[Any], level: int) -> None:
        self.task = task
        self.cancelling = task.cancelling()
        self.level = level
        self.fired = False

    def __call__(self) -> None:
        self.fired = True
        self.task.cancel("the lease was lost")


def enter(tenure: Tenure) -> None:
    """A block begins; the outermost one of a re-entered lease is the one that is cancelled."""
    task = asyncio.current_task()
    if tenure.hook is None and task is not None:
        tenure.hook = Body(task, tenure.count)


async def leave(core: Core[Any], tenure: Tenure, error: BaseException | None) -> None:
    """A block ends: release, and tell a loss from a cancellation."""
    body = tenure.hook
    if not isinstance(body, Body) or tenure.count > body.level:
        await core.leave(tenure, error)
        return
    tenure.hook = None  # from here on we are not to be cancelled by ourselves
    if not body.fired:
        await core.leave(tenure, error)
        return
    delivered = isinstance(error, asyncio.CancelledError)
    try:
        await core.leave(tenure, error)
        if not delivered:
            await asyncio.sleep(
                0
            )  # the body ended before the cancellation reached it: let it land here
    except asyncio.CancelledError:
        if delivered:
            raise  # a second one, which is somebody else's
    except LeaseLost:
        pass  # raised below, with its cause
    ours = body.task.uncancel() <= body.cancelling
    if delivered and not ours:
        return
    if error is None or delivered:
        assert tenure.loss is not None
        raise tenure.lost_again(tenure.loss) from error
