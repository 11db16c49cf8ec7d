"""Count the objects of a pool: each takes room for as long as anything refers to it.

Not ``WeakSet``: it removes a dead object in a callback written in Python, and an exception that a
signal handler raises there is swallowed. The dead object would then be counted for ever.
"""

from __future__ import annotations

from weakref import ReferenceType, ref


class Slot:
    """The right to make one connection."""


class LiveSet:
    """The live objects of a pool. Any thread may call any method, and be interrupted anywhere."""

    def __init__(self) -> None:
        self._all: set[ReferenceType[object]] = set()

    def add(self, one: object) -> None:
        self._all.add(ref(one))

    def discard(self, one: object) -> None:
        self._all.discard(ref(one))

    def living(self) -> list[object]:
        """Return all objects that anything still refers to."""
        found = [(one, one()) for one in list(self._all)]
        for one, living in found:
            if living is None:
                self._all.discard(one)
        return [living for _, living in found if living is not None]

    def __len__(self) -> int:
        for one in list(self._all):
            if one() is None:
                self._all.discard(one)
        return len(self._all)
