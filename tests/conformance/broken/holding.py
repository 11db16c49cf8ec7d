"""Engines that grant, renew, withdraw or release what they should not."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.model import Busy, Gone, Grant, Request, granted
from fencelock.world import World, sleep
from tests.conformance.broken.store import queue_of, record_of


class GrantsWhatIsHeld(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant):
            return answer
        with self.store.mutex:
            name = self.store.names["lock", request.name]
            record = self.store.give(name, request, self.world.now(), claimed=True)
        return granted(
            request.name, request.owner, record.fence, request.ttl, record.expires_at - record.ttl
        )


class GrantsTheFirstRefusal(MemoryEngine):
    """Like a check and a write in two steps: who looks while another writes gets in too."""

    async def acquire(self, request: Request) -> Grant | Busy:
        key = ("lock", request.name)
        if not ((name := self.store.current(key, self.world.now())) and name.records):
            await sleep(self.world, 0.1)  # on a busy machine all who begin at once begin by then
            self.store.names.pop(key, None)
        return await super().acquire(request)


class ReleasesForAnybody(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        record = record_of(self.store, grant.name)
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
        record = record_of(self.store, grant.name)
        fresh = record is None or record.expires_at <= grant.asked_at + record.ttl
        return fresh and await super().release(grant)


class WithdrawsForAnybody(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        record = record_of(self.store, request.name)
        queue_of(self.store, request.name).clear()
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
        record = record_of(self.store, request.name)
        if record is not None and record.owner == request.owner:
            await super().withdraw(request)


class WithdrawsThePlaceOnly(MemoryEngine):
    async def withdraw(self, request: Request) -> None:
        queue_of(self.store, request.name).pop(request.owner, None)


class RenewsByTakingAgain(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for grant in grants:
            answer = await self.acquire(Request(grant.name, grant.owner, grant.ttl))
            answers.append(answer if isinstance(answer, Grant) else Gone("expired", "it is taken"))
        return answers


class RenewsForAnybody(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        records = [record_of(self.store, grant.name) for grant in grants]
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


class EndsWithItsFirstClient(MemoryEngine):
    async def close(self) -> None:
        self.store.__init__(self.world)  # type: ignore[misc]


class ForgetsWhenAllHaveLeft(MemoryEngine):
    """Claims that grants are durable, and keeps them in memory."""

    traits = MemoryEngine.traits._replace(durable=True)

    async def close(self) -> None:
        self.store.names.clear()


class PromisesTooMuch(MemoryEngine):
    traits = MemoryEngine.traits._replace(fence=False)


class StoreOfTheClient(MemoryEngine):
    """Each client has a store of its own, so nobody excludes anybody."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address, Store(world))
