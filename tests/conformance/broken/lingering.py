"""Engines that are wrong about locks which outlive their release, their holder or their process."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Gone, Grant, Request
from fencelock.world import World
from tests.conformance.broken.store import record_of


class Portable(MemoryEngine):
    """Says what only an engine beyond one process may say."""

    traits = MemoryEngine.traits._replace(portable=True)


class KnowsItsOwnOnly(Portable):
    """Renews what it has granted by itself."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self.ours: set[str] = set()

    async def acquire(self, request: Request) -> Grant | Busy:
        self.ours.add(request.owner)
        return await super().acquire(request)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        ours = self.ours
        answers = await super().renew(grants)
        return [a if g.owner in ours else Gone("expired", "whose?")
                for a, g in zip(answers, grants, strict=True)]  # fmt: skip


class EndsAtOnce(Portable):
    async def end_in(self, grant: Grant, seconds: float) -> bool:
        return await self.release(grant)


class KeepsForASecond(MemoryEngine):
    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        record = record_of(self.store, request.name)
        if isinstance(answer, Grant) and record is not None:
            record.expires_at = min(record.expires_at, self.world.now() + 1.0)
        return answer
