"""Engines that are wrong about names with several holders, or about what they remember."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from weakref import WeakSet

from fencelock.engines.memory import MemoryEngine
from fencelock.engines.units import Memo, Name
from fencelock.model import Busy, Gone, Grant, Request, State, granted
from fencelock.world import Signal


def _key(request: Request | Grant) -> tuple[str, str]:
    return ("lock" if request.share is None else request.share.kind, request.name)


class GrantsOneTooMany(MemoryEngine):
    """Compares with "less or equal" where "less" was meant."""

    _overdrawn: ClassVar[WeakSet[Name]] = WeakSet()

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        name = self.store.names.get(_key(request))
        over = name in self._overdrawn
        if isinstance(answer, Grant) or request.share is None or name is None or over:
            return answer
        self.store.fence += 1
        self._overdrawn.add(name)
        share = request.share._replace(slot=name.limit)
        now = self.world.now()
        return granted(request.name, request.owner, self.store.fence, request.ttl, now, share)


class KnowsOneSlot(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if isinstance(answer, Grant) and answer.share is not None:
            return answer._replace(share=answer.share._replace(slot=0))
        return answer


class TakesAnyLimit(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(_key(request))
        if name is not None and request.share is not None:
            name.limit = request.share.limit
        return await super().acquire(request)


class WritesLikeAReader(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None and request.share.kind == "rwlock":
            request = request._replace(share=request.share._replace(units=1))
        return await super().acquire(request)


class LetsThoseInWhoFit(MemoryEngine):
    """Looks at what is free and not at who waits, so that a stream of readers starves a writer."""

    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(_key(request))
        if name is None or request.share is None or request.share.units > name.free:
            return await super().acquire(request)
        waiting, name.queue = name.queue, {}
        try:
            return await super().acquire(request)
        finally:
            waiting.pop(request.owner, None)
            name.queue = waiting


class ServesTheLast(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        new = request.owner not in getattr(self.store.names.get(_key(request)), "queue", ())
        answer = await super().acquire(request)
        if isinstance(answer, Busy) and request.queue and new:
            name = self.store.names[_key(request)]
            name.queue = {request.owner: name.queue.pop(request.owner), **name.queue}
        return answer


class KeepsTheSharesOfTheDead(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(_key(request))
        for record in [] if name is None else name.records.values():
            record.expires_at = self.world.now() + 60
        return await super().acquire(request)


class TakesAUnitWithEachQuestion(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        name = self.store.names.get(_key(request))
        if name is not None and request.owner in name.records:
            name.records[request.owner + "x"] = name.records.pop(request.owner)
        return await super().acquire(request)


class RenewsNoShares(MemoryEngine):
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        lost = Gone("expired", "who are you?")
        return [lost if grant.share is not None else (await super().renew([grant]))[0]
                for grant in grants]  # fmt: skip


class DowngradesByReleasing(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None and request.share.units == 1:
            await super().withdraw(request)
        return await super().acquire(request)


class OneKindForAll(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None and request.share.limit == 1:
            request = request._replace(share=None)
        return await super().acquire(request)


class ShowsLocksOnly(MemoryEngine):
    async def inspect(self, name: str) -> State:
        state = await super().inspect(name)
        return state._replace(holders=tuple(h._replace(role="lock") for h in state.holders))


class RevokesTheFirst(MemoryEngine):
    async def revoke(self, name: str, reason: str) -> bool:
        for (_, each), found in self.store.names.items():
            if each == name:
                record = next(iter(found.records.values()))
                self.store.revoked[record.owner] = reason
                del found.records[record.owner]
                return True
        return False


class ReleasesAnyShare(MemoryEngine):
    async def release(self, grant: Grant) -> bool:
        name = self.store.names.get(_key(grant))
        if name is None or not name.records:
            return False
        return await super().release(grant._replace(owner=next(iter(name.records))))


class RemembersTheLast(MemoryEngine):
    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await super().remember(name, item, number, keep)
        self.store.remembered[name].items[item] = number


class ForgetsWithItsClient(MemoryEngine):
    async def close(self) -> None:
        self.store.remembered.clear()


class ForgetsWithTheBriefest(MemoryEngine):
    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await super().remember(name, item, number, keep)
        items, _ = self.store.remembered[name]
        self.store.remembered[name] = Memo(items, self.world.now() + keep)


class RemembersWithoutCase(MemoryEngine):
    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await super().remember(name.lower(), item, number, keep)


class AnnouncesToItself(MemoryEngine):
    async def observe(self, name: str, signal: Signal) -> None:
        pass

    async def unobserve(self, name: str, signal: Signal) -> None:
        pass
