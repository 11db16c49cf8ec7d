"""Which names are observed through this node, and whether they may have changed.

An observation is soft: it is begun for the first poll of a name, and ends a while after the last.
Its stamp changes with every hint of the engine. Whoever has seen another one, of another node say,
is told at once: a hint too many costs a look, and one too few a slow look.
"""

from __future__ import annotations

from ..engine import Engine
from ..errors import FencelockError
from ..world import Signal, World, sleep
from .problems import Problem

KEEP_S = 10.0
NAMES_MAX = 10_000


class Observation:
    """One name. It is the signal that the engine sets, from whichever thread."""

    def __init__(self, name: str, mark: str) -> None:
        self.name = name
        self.wakes: dict[Signal, None] = {}
        """Of the polls that wait for a change."""
        self.polls = 0
        self.left: object = None
        """Stands for the moment at which the last poll ended."""
        self._mark = mark
        self._changes = 0

    @property
    def stamp(self) -> str:
        """What the present state is called: nobody else uses the same words for another."""
        return f"{self._mark}-{self._changes}"

    def set(self) -> None:
        self._changes += 1
        for wake in list(self.wakes):
            wake.set()

    def clear(self) -> None:
        """There is nothing to clear: the stamp tells."""

    def is_set(self) -> bool:
        return False


class Observations:
    """Those of one node."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self._by_name: dict[str, Observation] = {}

    async def begin(self, name: str) -> Observation:
        """Observe a name for one more poll, from now on."""
        found = self._by_name.get(name)
        if found is None:
            if len(self._by_name) >= NAMES_MAX:
                raise Problem("quota", "This node observes too many names", retry_in=KEEP_S)
            found = Observation(name, self._world.owner()[:12])
            await self._engine.observe(name, found)
            other = self._by_name.setdefault(name, found)
            if other is not found:  # somebody began meanwhile
                await self._engine.unobserve(name, found)
                found = other
        found.polls += 1
        return found

    def end(self, observation: Observation, wake: Signal) -> None:
        """End a poll; the name is observed for a while longer."""
        observation.wakes.pop(wake, None)
        observation.polls -= 1
        if not observation.polls:
            self._world.spawn(self._forget_later(observation), "fencelock-unobserve")

    async def _forget_later(self, observation: Observation) -> None:
        stamp = object()
        observation.left = stamp
        await sleep(self._world, KEEP_S)
        if observation.polls or observation.left is not stamp:
            return
        self._by_name.pop(observation.name, None)
        try:
            await self._engine.unobserve(observation.name, observation)
        except FencelockError:
            pass  # the connection that would tell of a change is gone
