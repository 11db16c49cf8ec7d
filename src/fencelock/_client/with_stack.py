"""Find the lease of the ``with`` block of a shared Lock that is being left.

A Lock holds no lease, yet ``with lock as lease:`` must find its lease again on leaving. Blocks of
one thread or task nest, so a stack for each is enough.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from ..errors import UsageError

B = TypeVar("B")


class WithStack(Generic[B]):
    """The open ``with`` blocks of one Lock."""

    __slots__ = ("_stacks",)

    def __init__(self) -> None:
        self._stacks: dict[Hashable, list[B]] = {}

    def enter(self, who: Hashable, block: B) -> None:
        """Note that a block was entered."""
        self._stacks.setdefault(who, []).append(block)

    def depth(self, who: Hashable) -> int:
        """Return how many blocks this thread or task has entered."""
        return len(self._stacks.get(who, ()))

    def cut(self, who: Hashable, depth: int) -> None:
        """Forget the blocks that were entered beyond a depth: nobody will leave them."""
        if self.depth(who) > depth:
            del self._stacks[who][depth:]
        if not depth:
            self._stacks.pop(who, None)

    def last(self, who: Hashable) -> B:
        """Return the innermost block of this thread or task, which is about to be left.

        A block may be left by another task than the one that entered it (an exit stack closed
        elsewhere does that). With only one stack open there is no doubt which is meant.
        """
        if who not in self._stacks:
            if len(self._stacks) != 1:
                raise UsageError(
                    "this thread or task leaves a lock that it has not entered: "
                    "keep the lease from acquire() and release that"
                )
            who = next(iter(self._stacks))
        return self._stacks[who][-1]

    def remove(self, block: B) -> None:
        """Forget the innermost entry of a block that was left, or not entered after all."""
        for who in list(self._stacks):  # finalizers and other threads change it meanwhile
            stack = self._stacks.get(who, [])
            for index in range(len(stack) - 1, -1, -1):
                if stack[index] is block:
                    del stack[index]
                    if not stack:
                        del self._stacks[who]
                    return
