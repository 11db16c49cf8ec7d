"""Engines that mix names up, or show and revoke what they should not."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Grant, Holding, Request, State
from tests.conformance.broken.store import record_of


class OneNameForAll(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request._replace(name="*"))
        return answer if isinstance(answer, Busy) else answer._replace(name=request.name)

    async def release(self, grant: Grant) -> bool:
        return await super().release(grant._replace(name="*"))

    async def withdraw(self, request: Request) -> None:
        await super().withdraw(request._replace(name="*"))


class ForgetsCase(OneNameForAll):
    async def acquire(self, request: Request) -> Grant | Busy:
        folded = request._replace(name=request.name.casefold())
        answer = await MemoryEngine.acquire(self, folded)
        return answer if isinstance(answer, Busy) else answer._replace(name=request.name)

    async def release(self, grant: Grant) -> bool:
        return await MemoryEngine.release(self, grant._replace(name=grant.name.casefold()))


class CutsNames(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        return await super().acquire(request._replace(name=request.name[:64]))


class ScansByPattern(MemoryEngine):
    async def scan(self, prefix: str) -> list[Holding]:
        everything = await super().scan("")
        return [found for found in everything if fnmatchcase(found.name, prefix + "*")]


class ScansTheDead(MemoryEngine):
    async def scan(self, prefix: str) -> list[Holding]:
        for (_, name), found in self.store.names.items():
            for record in found.records.values() if name.startswith(prefix) else ():
                record.expires_at = max(record.expires_at, self.world.now() + 1)
        return await super().scan(prefix)


class ShowsTheOwner(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        meta = json.dumps({**json.loads(request.meta), "owner": request.owner})
        return await super().acquire(request._replace(meta=meta))


class ShowsNoWords(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        return await super().acquire(request._replace(meta="{}"))


class ShowsShortWords(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        holders = [
            holding._replace(meta={key: str(value)[:200] for key, value in holding.meta.items()})
            for holding in state.holders
        ]
        return state._replace(holders=tuple(holders))


class ShowsTheDead(MemoryEngine):
    async def inspect(self, name: str) -> State:
        record = record_of(self.store, name)
        if record is not None:
            record.expires_at = max(record.expires_at, self.world.now() + 1)
        return await super().inspect(name)


class ShowsTheQueueBackwards(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        return state._replace(waiters=state.waiters[::-1])


class RevokesWithoutAWord(MemoryEngine):
    async def revoke(self, name: str, reason: str) -> bool:
        revoked = await super().revoke(name, reason)
        self.store.revoked.clear()
        return revoked


class RevokesNothing(MemoryEngine):
    async def revoke(self, name: str, reason: str) -> bool:
        return True


class RevokesAndForgetsTheFence(MemoryEngine):
    async def revoke(self, name: str, reason: str) -> bool:
        revoked = await super().revoke(name, reason)
        self.store.fence, self.store.wall_us = 0, lambda: 0
        return revoked
