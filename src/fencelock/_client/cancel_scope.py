"""Cancel the body of an ``async with`` when its lease is lost, so that the block raises LeaseLost.

The bookkeeping is that of ``asyncio.timeout``: counting tells our own cancellation from one that
somebody else requested, and only ours is turned into LeaseLost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..errors import LeaseLost

if TYPE_CHECKING:
    from .client import Core
    from .hold_state import HoldState


class CancelScope:
    """The task that works under a lease. Calling the scope cancels the task."""

    __slots__ = ("cancelling", "fired", "level", "task")

    def __init__(self, task: asyncio.Task[Any], level: int) -> None:
        self.task = task
        self.cancelling = task.cancelling()
        self.level = level
        self.fired = False

    def __call__(self) -> None:
        self.fired = True
        self.task.cancel("the lease was lost")


def enter(hold: HoldState) -> None:
    """Begin a block: on a loss, the outermost block of a re-entered lease is cancelled."""
    task = asyncio.current_task()
    if hold.hook is None and task is not None:
        hold.hook = CancelScope(task, hold.count)


async def leave(core: Core[Any], hold: HoldState, error: BaseException | None) -> None:
    """End a block: release, and tell a loss from a cancellation."""
    body = hold.hook
    if not isinstance(body, CancelScope) or hold.count > body.level:
        await core.lifecycle.leave(hold, error)
        return
    hold.hook = None  # from here on a loss must not cancel this task
    if not body.fired:
        await core.lifecycle.leave(hold, error)
        return
    delivered = landed = isinstance(error, asyncio.CancelledError)
    try:
        await core.lifecycle.leave(hold, error)
    except asyncio.CancelledError:
        if delivered:
            raise  # a second cancellation, which is somebody else's
        landed = True
    except LeaseLost:
        pass  # raised below, with its cause
    if not landed:  # the body ended before the cancellation reached it: let it land here
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
    ours = body.task.uncancel() <= body.cancelling
    if delivered and not ours:
        return
    if error is None or delivered:
        assert hold.loss is not None
        raise hold.lost_again(hold.loss) from error
