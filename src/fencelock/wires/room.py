"""Count what takes room in a pool: an object does for as long as somebody knows it.

Not ``WeakSet``: it takes out what has died in a callback written in Python, and an exception that a
signal handler raises there is swallowed. What has died would then be counted for ever.
"""

from __future__ import annotations

from weakref import ReferenceType, ref


class Slot:
    """The right to make one connection."""


class Room:
    """The objects of a pool that live. Each method is safe in any thread, and at any bytecode."""

    def __init__(self) -> None:
        self._all: set[ReferenceType[object]] = set()

    def add(self, one: object) -> None:
        self._all.add(ref(one))

    def discard(self, one: object) -> None:
        self._all.discard(ref(one))

    def living(self) -> list[object]:
        """All that somebody still knows."""
        return [found for one in list(self._all) if (found := one()) is not None]

    def __len__(self) -> int:
        for one in list(self._all):
            if one() is None:
                self._all.discard(one)
        return len(self._all)
