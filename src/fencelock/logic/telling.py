"""How a loss is told to its holder, and what goes wrong to whoever watches.

The keeper decides, here it is only said. Nothing that a listener does may reach back: a callback
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
from .tenure import Tenure

WAITING_MAX = 10_000  # notices that may wait for a listener that is slow; the oldest go first


class Notifier:
    """Writes to the log and calls subscribers in a job of its own, in order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._notices: deque[Callable[[], None]] = deque(maxlen=WAITING_MAX)
        self._job: Job | None = None

    def tell(self, *notices: Callable[[], None]) -> None:
        """Have notices given, soon."""
        with self._mutex:
            self._notices.extend(notices)
            if self._job is not None:
                return
            try:
                self._job = self._world.spawn(self._run(), "fencelock-notices")
                return
            except Exception:  # no thread to be had, or the loop is closed: then here and now
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


def tell_loss(world: World, notifier: Notifier, tenure: Tenure, error: LeaseLost) -> None:
    """Tell everybody who wants to know that a tenure is lost."""
    if tenure.signal is not None:
        tenure.signal.set()
    if tenure.hook is not None:
        try:
            tenure.hook()
        except Exception as failure:  # its loop is closed, say: the others must be told in time
            notifier.tell(partial(_unheard, tenure, failure))
    if tenure.on_lost is not None:
        try:
            world.spawn(call_back(tenure), "fencelock-on-lost")
        except Exception as failure:
            notifier.tell(partial(_unheard, tenure, failure))
    event = observe.Event("lost", error.name, error.fence, error.reason)
    notifier.tell(partial(observe.warn, str(error)), partial(observe.emit, event))


async def call_back(tenure: Tenure) -> None:
    """Call what the holder gave as ``on_lost``."""
    assert tenure.on_lost is not None
    assert tenure.loss is not None
    try:
        outcome = tenure.on_lost(tenure.loss)
        if isinstance(outcome, Awaitable):
            await outcome  # a coroutine function is welcome under asyncio
    except Exception as error:
        _unheard(tenure, error)


def tell_failure(notifier: Notifier, tenures: Sequence[Tenure], error: Exception) -> None:
    """Tell an operator that these could not be renewed this time."""
    message = (
        f"{len(tenures)} lease(s) could not be renewed and are tried again while they last, "
        f"{tenures[0].grant.name!r} among them: {error}"
    )
    events = [
        observe.Event("renew_failed", tenure.grant.name, tenure.grant.fence, str(error))
        for tenure in tenures
        if observe.subscribers
    ]
    notifier.tell(partial(observe.warn, message), partial(_emit, events))


def tell_unreleased(tenure: Tenure, error: Exception) -> None:
    """Tell that a body ended well and the engine did not confirm the release of its lock."""
    observe.warn(f"the work under the lock has ended well, but {error}")
    name, fence = tenure.grant.name, tenure.grant.fence
    observe.emit(observe.Event("release_failed", name, fence, str(error)))


def _emit(events: Sequence[observe.Event]) -> None:
    for event in events:
        observe.emit(event)


def _unheard(tenure: Tenure, error: Exception) -> None:
    name, fence = tenure.grant.name, tenure.grant.fence
    observe.warn(f"the holder of {name!r} could not be told of its loss: {error!r}")
    observe.emit(observe.Event("callback_failed", name, fence, repr(error)))
