"""The core of a client on a manual clock, over a private memory engine.

Its behavior is what every engine promises; ``engines/memory.py`` is the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from ..._client.client import Core
from ..._client.hold_state import HasHold, HoldState
from ..._client.lock_options import LockSpec
from ...engine import Address, Engine
from ...engines.memory import MemoryEngine, Store
from ...model import Busy
from ...world import World
from ..faulty import Faults, FaultyEngine
from .timeline import Timeline

L = TypeVar("L", bound=HasHold)

ADDRESS = Address("memory", hosts=(("testing", None),))


class ManualClockCore(Core[L]):
    """A core that registers its waiting calls with its timeline."""

    def __init__(
        self,
        world: World,
        store: Store,
        lease: Callable[[Core[L], HoldState], L],
        timeline: Timeline,
        who: Callable[[], Hashable],
        faults: Faults | None = None,
    ) -> None:
        self.timeline = timeline
        self._who = who

        def engine() -> Engine:
            inner = MemoryEngine(world, ADDRESS, store)
            return inner if faults is None else FaultyEngine(inner, faults)

        super().__init__(world, engine, lease)

    async def attempt(
        self, spec: LockSpec, timeout: float | None, limit: float | None = None
    ) -> L | Busy:
        with self.timeline.call(self._who(), f"acquire of {spec.name!r}"):
            return await super().attempt(spec, timeout, limit)

    async def wait_lost(self, hold: HoldState, timeout: float | None) -> bool:
        with self.timeline.call(self._who(), f"wait for the loss of {hold.grant.name!r}"):
            return await super().wait_lost(hold, timeout)
