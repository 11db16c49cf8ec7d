"""Which names are observed through this node, and whether they may have changed.

An observation is soft: it is begun for the first poll of a name, and ends a while after the last.
Its stamp changes with every hint of the engine. A poll that has another stamp, of another node say,
is answered at once: a hint too many costs a look, and one too few a slow look.
"""

from __future__ import annotations

from ..engine import Engine
from ..errors import FencelockError
from ..world import Signal, World, sleep
from .problems import Problem

KEEP_S = 10.0
NAMES_MAX = 10_000


class ObservedName:
    """An observed name. It is the signal that the engine sets, from any thread."""

    def __init__(self, name: str, mark: str) -> None:
        self.name = name
        self.wakes: dict[Signal, None] = {}
        """The signals of the polls that wait for a change."""
        self.polls = 0
        self.left: object = None
        """A mark of the moment at which the last poll ended."""
        self._mark = mark
        self._changes = 0

    @property
    def stamp(self) -> str:
        """The name of the present state: no node uses it for another state."""
        return f"{self._mark}-{self._changes}"

    def set(self) -> None:
        self._changes += 1
        for wake in list(self.wakes):
            wake.set()

    def clear(self) -> None:
        """Do nothing: the stamp says whether there was a change."""

    def is_set(self) -> bool:
        return False


class ObservedNames:
    """The observed names of one node."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self._by_name: dict[str, ObservedName] = {}

    async def begin(self, name: str) -> ObservedName:
        """Observe a name for one more poll, from now on."""
        found = self._by_name.get(name)
        if found is None:
            if len(self._by_name) >= NAMES_MAX:
                raise Problem("quota", "This node observes too many names", retry_in=KEEP_S)
            found = ObservedName(name, self._world.owner()[:12])
            await self._engine.observe(name, found)
            other = self._by_name.setdefault(name, found)
            if other is not found:  # another poll began it meanwhile
                await self._engine.unobserve(name, found)
                found = other
        found.polls += 1
        return found

    def end(self, observed: ObservedName, wake: Signal) -> None:
        """End a poll; the name is observed for a while longer."""
        observed.wakes.pop(wake, None)
        observed.polls -= 1
        if not observed.polls:
            self._world.spawn(self._forget_later(observed), "fencelock-unobserve")

    async def _forget_later(self, observed: ObservedName) -> None:
        stamp = object()
        observed.left = stamp
        await sleep(self._world, KEEP_S)
        if observed.polls or observed.left is not stamp:
            return
        self._by_name.pop(observed.name, None)
        try:
            await self._engine.unobserve(observed.name, observed)
        except FencelockError:
            pass  # the connection that would push a change is gone
