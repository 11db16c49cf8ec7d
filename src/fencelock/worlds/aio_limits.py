"""Cancel a block of a task at its deadline, and raise OutcomeUnknown there.

The bookkeeping is that of ``asyncio.timeout``: counting tells our own cancellation from one that
somebody else requested. One timer of the loop serves all blocks of a client, because nearly all of
them end long before their deadline, and a timer for each would cost more than the rest.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Protocol

from ..errors import OutcomeUnknown

TIME_IS_OVER = "its time is over"
"""The message of our own cancellation."""


class _World(Protocol):
    loop: asyncio.AbstractEventLoop

    @property
    def now(self) -> Any: ...


class Limits:
    """The open blocks of one client."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self.blocks: dict[_Until, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def until(self, moment: float) -> _Until:
        """Make a block that ends by a moment."""
        return _Until(self, moment)

    def watch(self, moment: float) -> None:
        """Have the timer fire by a moment."""
        if self._timer is None or moment < self._next:
            self._set(moment)

    def _set(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = moment
        delay = max(0.0, moment - self._world.now())
        self._timer = self._world.loop.call_later(delay, self._fire_due)

    def _fire_due(self) -> None:
        """Cancel the blocks that are overdue, and set the timer for the rest."""
        self._timer, now = None, self._world.now()
        for block in list(self.blocks):
            if block.moment <= now:
                block.fire()
        if self.blocks:
            self._set(min(block.moment for block in self.blocks))


class _Until:
    """One block of one task."""

    __slots__ = ("_cancelling", "_fired", "_limits", "_task", "moment")

    def __init__(self, limits: Limits, moment: float) -> None:
        self._limits = limits
        self.moment = moment
        self._fired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._limits.blocks[self] = None
        self._limits.watch(self.moment)

    def fire(self) -> None:
        """End the wait of the task."""
        del self._limits.blocks[self]
        self._fired = True
        self._task.cancel(TIME_IS_OVER)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._fired:
            del self._limits.blocks[self]
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and isinstance(error, asyncio.CancelledError):
            raise OutcomeUnknown("the engine did not answer within the caller's time") from error
