"""Release a hold that is over exactly once, and let any other caller wait for that.

The timer, a renewal that came too late and a holder that releases late may all find the same hold
over. The second of them must not unlock again: by then another owner may have the key, or the
connection. Nor may it report the hold as gone while the server still has it.
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
        """Return whether the caller is to release this hold, and then call ``done``.

        Only after this may it be removed from the holds: a caller that no longer finds it there
        then finds that its release is under way.
        """
        mine = self._world.signal()
        if self._under_way.setdefault(owner, mine) is not mine:
            return False
        if self._holds.get(owner) is hold:
            return True
        self.done(owner)  # it was released before, and this owner may have another hold by now
        return False

    def done(self, owner: str) -> None:
        """End a release: the server no longer has the hold, or nothing more can be done here."""
        self._under_way.pop(owner).set()

    async def settled(self, owners: Iterable[str], within: float) -> None:
        """Wait until no release for these owners is under way, for ``within`` seconds at most."""
        deadline = self._world.now() + within
        for owner in owners:
            if (signal := self._under_way.get(owner)) is not None:
                await self._world.wait(signal, deadline)
