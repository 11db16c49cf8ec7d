"""How a loss is told to its holder, and a renewal that failed to whoever watches.

The keeper decides, here it is only said. Nothing that a listener does may reach back: a callback
that raises, or an event loop that is closed, must not keep the other holders from being told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from .. import observe
from ..errors import LeaseLost
from ..world import World
from .tenure import Tenure


def tell_loss(world: World, tenure: Tenure, error: LeaseLost) -> None:
    """Tell everybody who wants to know that a tenure is lost."""
    if tenure.signal is not None:
        tenure.signal.set()
    if tenure.hook is not None:
        try:
            tenure.hook()
        except Exception as failure:  # its loop is closed, say: the others must be told in time
            _unheard(tenure, failure)
    if tenure.on_lost is not None:
        try:
            world.spawn(call_back(tenure), "fencelock-on-lost")
        except Exception as failure:
            _unheard(tenure, failure)
    observe.warn(str(error))
    observe.emit(observe.Event("lost", error.name, error.fence, error.reason))


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


def tell_failure(tenures: Sequence[Tenure], error: Exception) -> None:
    """Tell an operator that these could not be renewed this time."""
    observe.warn(
        f"{len(tenures)} lease(s) could not be renewed and are tried again while they last, "
        f"{tenures[0].grant.name!r} among them: {error}"
    )
    if observe.subscribers:
        for tenure in tenures:
            name, fence = tenure.grant.name, tenure.grant.fence
            observe.emit(observe.Event("renew_failed", name, fence, str(error)))


def _unheard(tenure: Tenure, error: Exception) -> None:
    name, fence = tenure.grant.name, tenure.grant.fence
    observe.warn(f"the holder of {name!r} could not be told of its loss: {error!r}")
    observe.emit(observe.Event("callback_failed", name, fence, repr(error)))
