"""A keeper at work in the simulated world, with an engine that does as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock._client.hold_state import HoldState
from fencelock._client.keeper import Keeper
from fencelock.engine import Address, Engine
from fencelock.errors import LeaseLost
from fencelock.model import Busy, Gone, Grant, Request, State, Traits, granted
from fencelock.sim.tasks import Flag
from fencelock.sim.world import Simulation, SimWorld
from fencelock.world import sleep

TTL = 3.0
END = TTL - 0.032  # when the holder of a lease of this ttl stops believing in it


class Scripted(Engine):
    """Renews whatever it is asked for, in no time, unless it is told otherwise."""

    schemes = ("scripted",)
    traits = Traits("correctness", "process", fence=True, fifo=True, push=True, durable=False)

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world, Address("scripted"))
        self.calls: list[tuple[float, list[str]]] = []
        self.asked: list[float] = []
        self.flying = 0
        self.most_flying = 0
        self.takes = 0.0
        self.failure: Exception | None = None
        self.gone: dict[str, Gone] = {}
        self.hung: Flag | None = None

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self.world.now()
        self.calls.append((asked_at, [grant.name for grant in grants]))
        self.asked += [grant.ttl for grant in grants]
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        try:
            if self.hung is not None:
                await self.world.wait(self.hung, None)
            await sleep(self.world, self.takes)
        finally:
            self.flying -= 1
        if self.failure is not None:
            raise self.failure
        return [
            self.gone.get(g.name) or granted(g.name, g.owner, g.fence, g.ttl, asked_at)
            for g in grants
        ]

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def acquire(self, request: Request) -> Grant | Busy:
        raise NotImplementedError

    async def release(self, grant: Grant) -> bool:
        raise NotImplementedError

    async def withdraw(self, request: Request) -> None:
        raise NotImplementedError

    async def inspect(self, name: str) -> State:
        raise NotImplementedError


class Desk:
    """A keeper at work: a simulation, an engine and the holds that were handed in."""

    def __init__(self) -> None:
        self.simulation = Simulation(1, steps_max=100_000)
        self.world = self.simulation.world("one")
        self.engine = Scripted(self.world)
        self.keeper = Keeper(self.world, self.engine)

    def hold(
        self,
        name: str = "a",
        ttl: float = TTL,
        renews: bool = True,
        max_hold: float | None = None,
        on_lost: Callable[[LeaseLost], object] | None = None,
    ) -> HoldState:
        now = self.world.now()
        hold_until = None if max_hold is None else now + max_hold
        grant = granted(name, f"owner of {name}", 7, min(ttl, max_hold or ttl), now)
        hold = HoldState(grant, "{}", renews, hold_until, on_lost, 0)
        hold.ttl = ttl
        self.keeper.add(hold)
        return hold

    def run(self, seconds: float) -> None:
        self.simulation.run(until=self.simulation.now + seconds)

    def told_at(self, hold: HoldState, seconds_max: float = 60.0) -> float:
        """Run until the hold is lost and return the moment."""
        end = self.simulation.now + seconds_max
        self.simulation.at(end, bool)
        self.simulation.run(until=lambda: hold.loss is not None or self.simulation.now >= end)
        assert hold.loss is not None, "nobody was told"
        return self.simulation.now

    def wake_ups(self) -> int:
        """How often the keeper itself has run so far."""
        return sum("fencelock-keeper" in str(event[1]) for event in self.simulation.trace)
