"""Clients whose clock is moved by hand, and the loss of a lease on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, overload

from .. import aio, sync
from .._client.client import Core
from .._client.hold_state import HoldState
from ..errors import UsageError
from ..model import LOSSES, Loss
from ..worlds.threads import drive
from .manual_clock.aio import AioClock, AioTimeline, ManualAioWorld
from .manual_clock.core import ManualClockCore
from .manual_clock.threads import Clock, ThreadsTimeline
from .manual_clock.timeline import REAL_TIMEOUT_S

__all__ = ["AioClock", "Clock", "aio_client", "client", "lose"]


def client(*, real_timeout: float = REAL_TIMEOUT_S) -> tuple[sync.Client, Clock]:
    """Return a client for a test, and the clock that it uses. Fences are 1, 2, 3, …

        >>> client, clock = client()
        >>> told = []
        >>> lock = client.lock("report", ttl=30, on_lost=told.append)
        >>> with lock as lease:
        ...     clock.advance(31)
        Traceback (most recent call last):
        ...
        fencelock.errors.Expired: the lease on 'report' (fence 1) is lost: it was not renewed ...
        >>> [type(loss).__name__ for loss in told]
        ['Expired']
        >>> client.close()

    ``clock.connect()`` returns a rival. ``real_timeout`` is how many real seconds the clock waits
    for the work that a move sets off, and how many a call waits for the clock to be moved, before
    they raise RuntimeError.
    """
    clock = Clock(real_timeout)
    return clock.connect(), clock


async def aio_client(*, real_timeout: float = REAL_TIMEOUT_S) -> tuple[aio.Client, AioClock]:
    """Return a client for a test, and the clock that it uses: as ``client()``, for asyncio.

    >>> import asyncio
    >>> from fencelock import LeaseLost
    >>> async def test():
    ...     client, clock = await aio_client()
    ...     try:
    ...         async with client.lock("report", ttl=30):
    ...             await clock.run(3600)       # renewed all the time
    ...             await clock.advance(31)     # the body is cancelled here
    ...             print("not reached")
    ...     except LeaseLost as error:
    ...         print(error.reason.partition(":")[0])
    ...     await client.close()
    >>> asyncio.run(test())
    it was not renewed within its ttl of 30 s
    """
    clock = AioClock(real_timeout)
    return clock.connect(), clock


@overload
def lose(lease: sync.Lease, reason: str = ..., *, loss: Loss = ...) -> None: ...


@overload
def lose(lease: aio.Lease, reason: str = ..., *, loss: Loss = ...) -> Coroutine[Any, Any, None]: ...


def lose(
    lease: sync.Lease | aio.Lease,
    reason: str = "it was taken away by a test",
    *,
    loss: Loss = "revoked",
) -> Coroutine[Any, Any, None] | None:
    """Take a lease away from its holder, now: the lock is free, and the holder is told.

        >>> client, clock = client()
        >>> lease = client.lock("report").acquire()
        >>> lose(lease, "maintenance")
        >>> lease.lost.is_set(), lease.reason
        (True, 'maintenance')
        >>> client.close()

    ``loss`` is "revoked", "expired" or "session". It works with any client; with one of this module
    ``on_lost`` has been called when it returns. For an asyncio lease it must be awaited.
    """
    if loss not in LOSSES:
        raise UsageError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
    core: Core[Any] = lease._core  # pyright: ignore[reportPrivateUsage]
    hold = lease._hold  # pyright: ignore[reportPrivateUsage]
    if core.lifecycle.loss(hold) is not None or hold.released:
        raise UsageError(f"{lease!r} is over already: there is nothing to lose")
    if isinstance(lease, aio.Lease):
        return _lose_awaited(core, hold, loss, reason)
    drive(_lose(core, hold, loss, reason))
    if isinstance(core, ManualClockCore) and isinstance(core.timeline, ThreadsTimeline):
        core.timeline.settle()
    return None


async def _lose(core: Core[Any], hold: HoldState, loss: Loss, reason: str) -> None:
    await core.engine.release(hold.grant)  # needs the owner: another owner's hold is never touched
    core.keeper.lose(hold, loss, reason)


async def _lose_awaited(core: Core[Any], hold: HoldState, loss: Loss, reason: str) -> None:
    await _lose(core, hold, loss, reason)
    if isinstance(core, ManualClockCore) and isinstance(core.timeline, AioTimeline):
        assert isinstance(core.world, ManualAioWorld)
        await core.world.shield(core.timeline.settle(asyncio.current_task()))
