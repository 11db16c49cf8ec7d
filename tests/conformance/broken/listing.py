"""Engines that list semaphores, read/write locks and elections wrongly."""

from __future__ import annotations

from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Grant, Holding, Request, State


class ScansLocksOnly(MemoryEngine):
    async def scan(self, prefix: str) -> list[Holding]:
        return [found for found in await super().scan(prefix) if found.role == "lock"]


class ScansWithoutLimits(MemoryEngine):
    async def scan(self, prefix: str) -> list[Holding]:
        return [found._replace(limit=None) for found in await super().scan(prefix)]


class ShowsAllAsReaders(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        shared = [w._replace(role="read") if w.role == "write" else w for w in state.waiters]
        return state._replace(waiters=tuple(shared))


class ShowsWritersOnly(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        shown = [h._replace(role="write") if h.role == "read" else h for h in state.holders]
        return state._replace(holders=tuple(shown))


class ShowsTheQueueOfLocks(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        return state._replace(waiters=tuple(w for w in state.waiters if w.role == "lock"))


class ShowsWhatWasGranted(MemoryEngine):
    """Lists a writer that only reads by what it was granted at first."""

    wrote: set[int]

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        share = request.share
        if isinstance(answer, Grant) and share is not None and share.units == share.limit:
            self.wrote = {*getattr(self, "wrote", ()), answer.fence}
        return answer

    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        shown = [h._replace(role="write") if h.fence in self.wrote else h for h in state.holders]
        return state._replace(holders=tuple(shown))


class ShowsDeadShares(MemoryEngine):
    async def inspect(self, name: str) -> State:
        for (kind, known), found in self.store.names.items():
            for record in found.records.values() if (kind, known) == ("rwlock", name) else ():
                record.expires_at = max(record.expires_at, self.world.now() + 1)
        return await super().inspect(name)
