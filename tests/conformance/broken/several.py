"""Engines that are wrong about several locks at once."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Grant, Request, Together


class OneByOne(MemoryEngine):
    """It is not broken: engines need not know of several locks."""

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        return None


class TakesWhatIsFree(MemoryEngine):
    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        grants = list[Grant]()
        for request in requests:
            answer = await self.acquire(request)
            if isinstance(answer, Busy):
                return request.name, answer
            grants.append(answer)
        return grants


class TakesWhatIsHeld(MemoryEngine):
    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        for request in requests[1:]:
            self.store.names.pop(("lock", request.name), None)
        return await super().acquire_all(requests)


class NamesTheLast(MemoryEngine):
    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        return await super().acquire_all([*reversed(requests)])


class ReleasesTheFirst(MemoryEngine):
    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        return [await self.release(grants[0]) for _ in grants]


class ReleasesTheFirstInDeed(MemoryEngine):
    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        await self.release(grants[0])
        return [True for _ in grants]


class ReleasesAllInWords(MemoryEngine):
    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        for grant in grants:
            await self.release(grant)
        return [True for _ in grants]


class ReleasesAllOfTheNames(MemoryEngine):
    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        freed = [await self.release(grant) for grant in grants]
        for grant in grants:
            self.store.names.pop(("lock", grant.name), None)
        return freed
