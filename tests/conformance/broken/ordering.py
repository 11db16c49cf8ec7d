"""Engines whose fences, queues or leases do not go by the order of things."""

from __future__ import annotations

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Grant, Request
from fencelock.world import Signal, World
from tests.conformance.broken.store import mutex_of, queue_of, record_of


class FenceStandsStill(MemoryEngine):
    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self.store.wall_us = lambda: 0

    async def acquire(self, request: Request) -> Grant | Busy:
        self.store.fence = 0
        return await super().acquire(request)

    async def release(self, grant: Grant) -> bool:
        self.store.fence = 0
        return await super().release(grant)


class FenceOfTheClient(MemoryEngine):
    """Each client counts for itself."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._count = 0

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Busy):
            return answer
        self._count += 1
        return answer._replace(fence=self._count)


class FenceThatJumps(MemoryEngine):
    """Asked again for the same owner, it counts on."""

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Busy):
            return answer
        record = self.store.names["lock", request.name].records[request.owner]
        record.fence = self.store.fence = self.store.fence + 1
        return answer._replace(fence=record.fence)


class FenceTooLarge(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        self.store.fence = max(self.store.fence, 2**60)
        return await super().acquire(request)


class LastComeFirstServed(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        mutex = mutex_of(self.store, grant.name)
        if mutex is not None:
            mutex.queue = dict(reversed(mutex.queue.items()))
        return await super().release(grant)


class LetsOvertake(MemoryEngine):
    """Passes over who waits, and lets whoever asks first have it."""

    async def release(self, grant: Grant) -> bool:
        for waiter in queue_of(self.store, grant.name).values():
            waiter.lapsed = True
        return await super().release(grant)


class SendsToTheEnd(MemoryEngine):
    """Who asks again stands at the end of the queue."""

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.queue:
            queue_of(self.store, request.name).pop(request.owner, None)
        return await super().acquire(request)


class QueuesEverybody(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        return await super().acquire(request._replace(queue=True))


class NeverPushes(MemoryEngine):
    async def watch(self, request: Request, signal: Signal) -> None:
        pass


class WaitsForTheDead(MemoryEngine):
    """Who was called keeps the lock for as long as a holder, though it never comes."""

    async def release(self, grant: Grant) -> bool:
        freed = await super().release(grant)
        record = record_of(self.store, grant.name)
        if record is not None and not record.claimed:
            record.expires_at = self.world.now() + 3600
        return freed


class NeverExpires(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            self.store.names["lock", request.name].records[request.owner].expires_at += 3600
        return answer


class ExpiresEarly(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            self.store.names["lock", request.name].records[request.owner].expires_at -= (
                request.ttl / 2
            )
        return answer


class CountsFromTheAnswer(MemoryEngine):
    """Takes the time when the answer came for the time when it asked."""

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        return answer if isinstance(answer, Busy) else answer._replace(asked_at=answer.valid_until)
