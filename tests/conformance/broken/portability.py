"""Engines that are wrong about who may go on with a grant, or with a position in a queue."""

from __future__ import annotations

from fencelock.engine import Address
from fencelock.engines.units import key_of
from fencelock.errors import EngineError
from fencelock.model import Busy, Grant, Request
from fencelock.world import Signal, World
from tests.conformance.broken.lingering import Portable


class OfItsOwn(Portable):
    """Knows what it was asked for by its own client."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self.ours: set[str] = set()

    def is_stranger(self, request: Request) -> bool:
        """Whether an owner that waits has asked through another client only."""
        name = self.store.names.get(key_of(request.name, request.share))
        return name is not None and request.owner in name.queue and request.owner not in self.ours

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        self.ours.add(request.owner)
        return answer


class ReleasesItsOwnOnly(OfItsOwn):
    async def release(self, grant: Grant) -> bool:
        return grant.owner in self.ours and await super().release(grant)


class KeepsTheFirstEnd(Portable):
    """Finds the grant of an owner that asks again, and does not extend it."""

    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(key_of(request.name, request.share))
        record = None if name is None else name.records.get(request.owner)
        if record is None or not record.claimed:
            return await super().acquire(request)
        end = record.expires_at
        answer = await super().acquire(request)
        record.expires_at = end
        return answer


class GrantsToEachClient(OfItsOwn):
    """Takes an owner that holds through another client for a new one."""

    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(key_of(request.name, request.share))
        if name is not None and request.owner in name.records and request.owner not in self.ours:
            name.records[request.owner + "x"] = name.records.pop(request.owner)
        return await super().acquire(request)


class StandsAnewElsewhere(OfItsOwn):
    """Who asks through another client stands at the end of the queue."""

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.queue and self.is_stranger(request):
            await self.withdraw(request)
        return await super().acquire(request)


class StandsOnlyOnce(OfItsOwn):
    """Inserts who asks for the first time, and has not thought of other clients."""

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.queue and self.is_stranger(request):
            raise EngineError("duplicate entry")
        return await super().acquire(request)


class WakesTheFirstClient(Portable):
    async def watch(self, request: Request, signal: Signal) -> None:
        self.store.signals.setdefault(request.owner, signal)


class LeavesForGood(Portable):
    """Takes all of it back, whoever has it now."""

    async def leave_queue(self, request: Request) -> None:
        await self.withdraw(request)


class HandsOver(Portable):
    """Has who is called keep the lock, and does not take it back from who has left."""

    async def release(self, grant: Grant) -> bool:
        freed = await super().release(grant)
        name = self.store.names.get(key_of(grant.name, grant.share))
        for record in () if name is None else name.records.values():
            if not record.claimed:
                record.expires_at = self.world.now() + 3600
        return freed
