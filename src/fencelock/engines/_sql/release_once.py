"""Give a hold that is over back exactly once, and let any other caller wait for that.

The timer, a renewal that came too late and a holder that releases late may all find the same hold
over. Whoever is second must not unlock again: by then the key, or the connection, may be somebody
else's. Nor may it say that the hold is gone while the server still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...world import Signal, World


class ReleaseOnce:
    """The late releases of one client's holds."""

    def __init__(self, world: World, holds: Mapping[str, object]) -> None:
        self._world = world
        self._holds = holds
        self._under_way: dict[str, Signal] = {}

    def begin(self, owner: str, hold: object) -> bool:
        """Say whether the caller is to give this hold back, and then call ``done``.

        Only after this may it be taken out: who misses a hold finds that its release is under way.
        """
        mine = self._world.signal()
        if self._under_way.setdefault(owner, mine) is not mine:
            return False
        if self._holds.get(owner) is hold:
            return True
        self.done(owner)  # it was given back before, and this owner may have another by now
        return False

    def done(self, owner: str) -> None:
        """The server has it no more, or nothing more can be done about it here."""
        self._under_way.pop(owner).set()

    async def settled(self, owners: Iterable[str], within: float) -> None:
        """Wait, for so long, until no release of theirs is under way."""
        deadline = self._world.now() + within
        for owner in owners:
            if (signal := self._under_way.get(owner)) is not None:
                await self._world.wait(signal, deadline)
