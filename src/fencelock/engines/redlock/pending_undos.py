"""Remember undo requests that are not confirmed: at those nodes a grant cannot be trusted.

An owner that did not get a majority takes its votes back and tries again later, with the same owner
id. The undo is sent behind the old attempt and before the new one, as long as the connection lives.
If that breaks in between, the node may still serve the undo after the new attempt. So a node counts
again for an owner only when it has answered the undo.
"""

from __future__ import annotations

from ...world import snapshot
from .fanout import Broadcast
from .votes import is_definite, is_open

SWEEP = 1000  # owners, before those that need no longer be remembered are searched for
OLD_S = 60.0  # so long after the lease would have ended, no request in flight can still arrive


class PendingUndos:
    """Undos that not every node has answered, of owners that may try again."""

    def __init__(self) -> None:
        self._undone: dict[str, list[Broadcast]] = {}
        self._sweep_at = SWEEP

    def __contains__(self, owner: str) -> bool:
        return owner in self._undone

    def add(self, owner: str, undo: Broadcast, now: float) -> None:
        """Remember that an attempt is being undone."""
        open_ones = [one for one in self._undone.pop(owner, ()) if not is_definite(one)]
        if not is_definite(undo):
            open_ones.append(undo)
        if open_ones:
            self._undone[owner] = open_ones
        if len(self._undone) > self._sweep_at:
            self._sweep(now)

    def nodes(self, owner: str) -> set[int]:
        """Return the nodes that do not count for an owner."""
        return {
            index
            for undo in self._undone.get(owner, ())
            for index, answer in enumerate(undo.answers)
            if is_open(answer)
        }

    def forget(self, owner: str) -> None:
        """Forget an owner that holds the lock and will not try again."""
        self._undone.pop(owner, None)

    def _sweep(self, now: float) -> None:
        for owner, undone in snapshot(self._undone):
            if all(is_definite(one) or one.kept_until + OLD_S < now for one in undone):
                self._undone.pop(owner, None)
        self._sweep_at = max(SWEEP, 2 * len(self._undone))
