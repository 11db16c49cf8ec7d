"""Engines that break one promise each, to see that the judge notices.

Each is the memory engine with one defect, of a kind that was found in real lock libraries.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.model import Busy, Gone, Grant, Holding, Request, State, granted
from fencelock.world import Signal, World, sleep


class GrantsWhatIsHeld(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            return answer
        with self.store.mutex:
            record = self.store.give(request.name, request, self.world.now(), claimed=True)
        return granted(
            request.name, request.owner, record.fence, request.ttl, record.expires_at - record.ttl
        )


class GrantsTheFirstRefusal(MemoryEngine):
    """Like a check and a write in two steps: who looks while another writes gets in too."""

    async def acquire(self, request: Request) -> Grant | Busy:
        free = self.store.current(request.name, self.world.now()) is None
        await sleep(self.world, 0.001)
        if free:
            self.store.records.pop(request.name, None)
        return await super().acquire(request)


class ReleasesForAnybody(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        record = self.store.records.get(grant.name)
        return record is not None and await super().release(grant._replace(owner=record.owner))


class ReleasesNothing(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        return True


class ReleasesThatSayYes(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        await super().release(grant)
        return True


class ReleasesOnce(MemoryEngine):
    """Gives back a lock that was renewed as if the old one were another's."""

    async def release(self, grant: Grant) -> bool:
        record = self.store.records.get(grant.name)
        fresh = record is None or record.expires_at <= grant.asked_at + record.ttl
        return fresh and await super().release(grant)


class WithdrawsForAnybody(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        record = self.store.records.get(request.name)
        self.store.queues.pop(request.name, None)
        if record is not None:
            await super().withdraw(request._replace(owner=record.owner))


class WithdrawsNothing(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        pass


class WithdrawsNothingSlowly(WithdrawsNothing):
    """The same behind a wire: there a cancellation can strike half way."""

    async def acquire(self, request: Request) -> Grant | Busy:
        await sleep(self.world, 0)
        answer = await super().acquire(request)
        await sleep(self.world, 0)
        return answer


class WithdrawsTheGrantOnly(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        record = self.store.records.get(request.name)
        if record is not None and record.owner == request.owner:
            await super().withdraw(request)


class WithdrawsThePlaceOnly(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        self.store.queues.get(request.name, {}).pop(request.owner, None)


class RenewsByTakingAgain(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for grant in grants:
            answer = await self.acquire(Request(grant.name, grant.owner, grant.ttl))
            answers.append(answer if isinstance(answer, Grant) else Gone("expired", "it is taken"))
        return answers


class RenewsForAnybody(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        records = [self.store.records.get(grant.name) for grant in grants]
        owners = [
            grant._replace(owner=r.owner) if r else grant
            for grant, r in zip(grants, records, strict=True)
        ]
        return await super().renew(owners)


class RenewsInItsOwnOrder(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await super().renew(sorted(grants))


class RenewsInWordsOnly(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        return [granted(g.name, g.owner, g.fence, g.ttl, now) for g in grants]


class RenewsTheFirstOnly(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return [*await super().renew(grants[:1]), *grants[1:]]


class RenewsWithANewFence(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers = await super().renew(grants)
        return [a._replace(fence=a.fence + 1) if isinstance(a, Grant) else a for a in answers]


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
        record = self.store.records[request.name]
        record.fence = self.store.fence = self.store.fence + 1
        return answer._replace(fence=record.fence)


class FenceTooLarge(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        self.store.fence = max(self.store.fence, 2**60)
        return await super().acquire(request)


class LastComeFirstServed(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        queue = self.store.queues.get(grant.name)
        if queue:
            self.store.queues[grant.name] = dict(reversed(queue.items()))
        return await super().release(grant)


class LetsOvertake(MemoryEngine):
    """Passes over who waits, and lets whoever asks first have it."""

    async def release(self, grant: Grant) -> bool:
        queue = self.store.queues.pop(grant.name, {})
        freed = await super().release(grant)
        if queue:
            self.store.queues[grant.name] = queue
        for waiter in queue.values():
            waiter.lapsed = True
        return freed


class SendsToTheEnd(MemoryEngine):
    """Who asks again stands at the end of the queue."""

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.queue:
            self.store.queues.get(request.name, {}).pop(request.owner, None)
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
        record = self.store.records.get(grant.name)
        if record is not None and not record.claimed:
            record.expires_at = self.world.now() + 3600
        return freed


class NeverExpires(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            self.store.records[request.name].expires_at += 3600
        return answer


class ExpiresEarly(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            self.store.records[request.name].expires_at -= request.ttl / 2
        return answer


class CountsFromTheAnswer(MemoryEngine):
    """Takes the time when the answer came for the time when it asked."""

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        return answer if isinstance(answer, Busy) else answer._replace(asked_at=answer.valid_until)


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
        for name, record in self.store.records.items():
            if name.startswith(prefix):
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
        record = self.store.records.get(name)
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


class EndsWithItsFirstClient(MemoryEngine):
    async def close(self) -> None:
        self.store.__init__(self.world)  # type: ignore[misc]


class ForgetsWhenAllHaveLeft(MemoryEngine):
    """Claims that grants are durable, and keeps them in memory."""

    traits = MemoryEngine.traits._replace(durable=True)

    async def close(self) -> None:
        self.store.records.clear()


class PromisesTooMuch(MemoryEngine):
    traits = MemoryEngine.traits._replace(fence=False)


class StoreOfTheClient(MemoryEngine):
    """Each client has a store of its own, so nobody excludes anybody."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address, Store(world))
