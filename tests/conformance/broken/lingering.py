"""Engines that are wrong about locks which outlive their release, their holder or their process."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Gone, Grant, Request
from tests.conformance.broken.store import record_of


class Portable(MemoryEngine):
    """Says what only an engine beyond one process may say."""

    traits = MemoryEngine.traits._replace(portable=True)


class KnowsItsOwnOnly(Portable):
    """Renews what it has granted by itself."""

    async def acquire(self, request: Request) -> Grant | Busy:
        self.__dict__.setdefault("ours", set()).add(request.owner)
        return await super().acquire(request)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        ours = self.__dict__.setdefault("ours", set())
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
