"""Call ``on_lost``, log and emit events when a lease is lost or could not be renewed.

The keeper decides. Nothing that a listener does may reach back: a callback
that raises, a log handler that takes seconds or an event loop that is closed must not keep the
other holders from being told, nor their leases from being renewed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from .. import observe
from ..errors import LeaseLost
from ..world import Job, World
from .hold_state import HoldState

WAITING_MAX = 10_000  # notices that may wait for a slow listener; then the oldest are dropped


class Notifier:
    """Writes to the log and calls subscribers in a job of its own, in order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._notices: deque[Callable[[], None]] = deque(maxlen=WAITING_MAX)
        self._job: Job | None = None

    def tell(self, *notices: Callable[[], None]) -> None:
        """Have these notices called soon, in order."""
        with self._mutex:
            self._notices.extend(notices)
            if self._job is not None:
                return
            try:
                self._job = self._world.keep(self._run, "fencelock-notices")
                return
            except Exception:  # no thread left, or the loop is closed: call them here and now
                pass
        while (notice := self._next()) is not None:
            notice()

    async def _run(self) -> None:
        while (notice := self._next()) is not None:
            notice()

    def _next(self) -> Callable[[], None] | None:
        with self._mutex:
            if self._notices:
                return self._notices.popleft()
            self._job = None
            return None


def tell_loss(world: World, notifier: Notifier, hold: HoldState, error: LeaseLost) -> None:
    """Set the signal of a lost hold, call its ``on_lost``, log and emit the loss."""
    if hold.signal is not None:
        hold.signal.set()
    if hold.hook is not None:
        try:
            hold.hook()
        except Exception as failure:  # a closed loop, say: the others must still be told in time
            notifier.tell(partial(_not_told, hold, failure))
    if hold.on_lost is not None:
        try:
            world.spawn(call_back(hold), "fencelock-on-lost")
        except Exception as failure:
            notifier.tell(partial(_not_told, hold, failure))
    event = hold.event("lost", error.reason, world.now() - hold.since)
    notifier.tell(partial(observe.warn, str(error)), partial(observe.emit, event))


async def call_back(hold: HoldState) -> None:
    """Call what the holder gave as ``on_lost``."""
    assert hold.on_lost is not None
    assert hold.loss is not None
    try:
        outcome = hold.on_lost(hold.loss)
        if isinstance(outcome, Awaitable):
            await outcome  # a coroutine function is welcome under asyncio
    except Exception as error:
        _not_told(hold, error)


def tell_failure(notifier: Notifier, holds: Sequence[HoldState], error: Exception) -> None:
    """Tell the log and subscribers that these holds could not be renewed this time."""
    message = (
        f"{len(holds)} lease(s) could not be renewed and are tried again while they last, "
        f"{holds[0].grant.name!r} among them: {error}"
    )
    subscribed = holds if observe.subscribers else ()
    events = [hold.event("renew_failed", str(error)) for hold in subscribed]
    notifier.tell(partial(observe.warn, message), partial(_emit, events))


def tell_events(notifier: Notifier, events: Sequence[observe.Event]) -> None:
    """Emit these events soon."""
    notifier.tell(partial(_emit, events))


def warn_unreleased(error: Exception) -> None:
    """Warn that a body ended well, but the engine did not confirm the release of its lock."""
    observe.warn(f"the work under the lock has ended well, but {error}")


def _emit(events: Sequence[observe.Event]) -> None:
    for event in events:
        observe.emit(event)


def _not_told(hold: HoldState, error: Exception) -> None:
    observe.warn(f"the holder of {hold.grant.name!r} could not be told of its loss: {error!r}")
    observe.emit(hold.event("callback_failed", repr(error)))
