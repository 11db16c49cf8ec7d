"""Inspect, list, revoke and diagnose the locks of an engine: what needs no hold.

Each call opens the engine if need be, and then asks it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import observe
from ..model import Finding, Holding, State, in_order, queues_in_order
from ..world import NO_LIMIT
from .events import call_engine

if TYPE_CHECKING:
    from .client import Core


async def diagnose(core: Core[Any]) -> list[Finding]:
    """Return what would break a promise of the engine here."""
    with core.world.until(NO_LIMIT):
        await core.ready()
        return await core.engine.diagnose()


async def inspect(core: Core[Any], name: str) -> State:
    """Return who holds a name and who waits for it, in order."""
    with core.world.until(NO_LIMIT):
        await core.ready()
        state = await call_engine(core.world, core.engine, core.engine.inspect, name)
    waiters = tuple(queues_in_order(state.waiters))
    return state._replace(holders=tuple(in_order(state.holders)), waiters=waiters)


async def scan(core: Core[Any], prefix: str) -> list[Holding]:
    """Return the holders of all names that begin with the prefix, in order."""
    with core.world.until(NO_LIMIT):
        await core.ready()
        return in_order(await call_engine(core.world, core.engine, core.engine.scan, prefix))


async def revoke(core: Core[Any], name: str, reason: str) -> bool:
    """Take a lock from its holder; return False if nobody held it."""
    with core.world.until(NO_LIMIT):
        await core.ready()
        revoked = await call_engine(core.world, core.engine, core.engine.revoke, name, reason)
    if revoked and observe.subscribers:
        group = observe.group_of(name)
        scheme = core.engine.address.scheme
        observe.emit(observe.Event("revoked", name, detail=reason, engine=scheme, group=group))
    return revoked
