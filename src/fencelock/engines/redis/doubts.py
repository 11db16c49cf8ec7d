"""Where a grant cannot be believed, because an earlier attempt of its owner may yet be undone.

An owner that did not get a majority takes its votes back and tries again later, under the same
name. What takes them back stands in order behind the old attempt and before the new one, as long as
the connection lives. If it breaks in between, the node may still serve what it was sent: after the
new attempt. So a node counts again for an owner only when it has answered.
"""

from __future__ import annotations

from .redlock_answers import is_definite, is_open
from .round import Round

SWEEP = 1000  # owners, before those that need no longer be remembered are looked for
OLD_S = 60.0  # after its lease would be over, nothing that was in flight can still arrive


class Doubts:
    """What undid attempts of owners that may try again, and was not answered by every node."""

    def __init__(self) -> None:
        self._undone: dict[str, list[Round]] = {}
        self._sweep_at = SWEEP

    def __contains__(self, owner: str) -> bool:
        return owner in self._undone

    def add(self, owner: str, undo: Round, now: float) -> None:
        """Remember that an attempt is being undone."""
        open_ones = [one for one in self._undone.pop(owner, ()) if not is_definite(one)]
        if not is_definite(undo):
            open_ones.append(undo)
        if open_ones:
            self._undone[owner] = open_ones
        if len(self._undone) > self._sweep_at:
            self._sweep(now)

    def places(self, owner: str) -> set[int]:
        """The nodes that do not count for an owner."""
        return {
            place
            for undo in self._undone.get(owner, ())
            for place, answer in enumerate(undo.answers)
            if is_open(answer)
        }

    def forget(self, owner: str) -> None:
        """It holds the lock and will not ask for it again."""
        self._undone.pop(owner, None)

    def _sweep(self, now: float) -> None:
        for owner, undone in list(self._undone.items()):
            if all(is_definite(one) or one.kept_until + OLD_S < now for one in undone):
                self._undone.pop(owner, None)
        self._sweep_at = max(SWEEP, 2 * len(self._undone))
