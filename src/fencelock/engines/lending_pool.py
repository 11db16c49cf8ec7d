"""A few connections or sessions that are used again, each lent to one caller at a time.

An exception of a signal handler may end a caller between any two steps. So room is not counted up
and down: a member, or the right to make one, takes room for as long as anything refers to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from ..wires.live_set import LiveSet, Slot
from ..world import Signal, World

T = TypeVar("T")

CHECK_S = 0.1  # how often a caller that waits for a member checks whether one was lost


class LendingPool(Generic[T]):
    """At most ``size`` members; a caller that comes while all are lent waits."""

    def __init__(self, world: World, make: Callable[[], Awaitable[T]], size: int) -> None:
        self._world = world
        self._make = make
        self._size = size
        self._free: deque[T] = deque()
        self._taken = LiveSet()
        """All members, and the rights to make one."""
        self._queue: deque[Signal] = deque()
        self._mutex = world.mutex()

    async def lend(self, give_up: float) -> T | None:
        """Return a member that nobody else uses, or None once ``give_up`` has passed."""
        while True:
            found = self._reserve()
            if isinstance(found, Slot):
                return await self._make_in(found)
            if found is not None or self._world.now() >= give_up:
                return found
            await self._wait(give_up)

    def _reserve(self) -> T | Slot | None:
        """Return a member, or the right to make one, or None where all are lent."""
        with self._mutex:
            if self._free:  # the one used last: the others may have been closed
                return self._free.pop()
            if len(self._taken) < self._size:
                slot = Slot()
                self._taken.add(slot)
                return slot
            return None

    async def _make_in(self, slot: Slot) -> T:
        try:
            made = await self._make()
            self._taken.add(made)
            return made
        finally:
            self._taken.discard(slot)

    async def _wait(self, give_up: float) -> None:
        signal, woken = self._world.signal(), False
        self._queue.append(signal)
        try:
            woken = await self._world.wait(signal, min(give_up, self._world.now() + CHECK_S))
        finally:
            with self._mutex:
                if signal in self._queue:
                    self._queue.remove(signal)
                elif not woken:
                    self._wake_first()  # this caller was woken just now, and leaves

    def give_back(self, member: T) -> None:
        """Return a member to the pool, and wake the first caller that waits."""
        self._free.append(member)
        self._wake_first()

    def forget(self, member: T) -> None:
        """Remove a member, which makes room for another one."""
        self._taken.discard(member)
        self._wake_first()

    def drain(self) -> list[T]:
        """Remove all members that are not lent, and return them."""
        found = list[T]()
        while self._free:
            try:
                found.append(self._free.pop())
            except IndexError:
                break  # another took the last
            self.forget(found[-1])
        return found

    def living(self) -> list[T]:
        """Return all members, lent or not."""
        found = [one for one in self._taken.living() if not isinstance(one, Slot)]
        return cast("list[T]", found)

    def _wake_first(self) -> None:
        if self._queue:
            try:
                self._queue.popleft().set()
            except IndexError:
                pass  # another thread was first
