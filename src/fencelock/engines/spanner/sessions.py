"""The sessions of one client, each lent to one caller: it has one transaction at a time.

An exception of a signal handler may end a caller between any two steps. So room is not counted up
and down: a session takes room for as long as somebody knows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from ...errors import Unavailable
from ...wires.room import Room, Slot
from ...world import Signal, World

LOOK_S = 0.1  # how often who waits for a session looks whether one was lost


class Session:
    """One session of the server, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class SessionPool:
    """At most so many sessions; who comes when all are lent waits."""

    def __init__(self, world: World, create: Callable[[], Awaitable[str]], size: int) -> None:
        self._world = world
        self._create = create
        self._size = size
        self._free: deque[Session] = deque()
        self._taken = Room()
        self._queue: deque[Signal] = deque()
        self._mutex = world.mutex()

    async def lend(self, give_up: float) -> Session:
        """Return a session that nobody else uses, or raise Unavailable when it is too late."""
        while True:
            found = self._reserve()
            if isinstance(found, Session):
                return found
            if found is not None:
                session = Session(await self._create())
                self._taken.add(session)
                self._taken.discard(found)
                return session
            if self._world.now() >= give_up:
                all_lent = f"all {self._size} sessions of this client were in use"
                raise Unavailable(f"{all_lent}, nothing was done: allow more by pool=")
            signal = self._world.signal()
            self._queue.append(signal)
            try:
                await self._world.wait(signal, min(give_up, self._world.now() + LOOK_S))
            finally:
                self._leave(signal)

    def _reserve(self) -> Session | Slot | None:
        with self._mutex:
            if self._free:
                return self._free.pop()
            if len(self._taken) < self._size:
                slot = Slot()
                self._taken.add(slot)
                return slot
            return None

    def _leave(self, signal: Signal) -> None:
        with self._mutex:
            if signal in self._queue:
                self._queue.remove(signal)
            elif self._free:
                self._wake_first()  # it was woken, and may leave all the same

    def give_back(self, session: Session) -> None:
        """Lend a session to others; no transaction is open in it."""
        self._free.append(session)
        self._wake_first()

    def forget(self, session: Session) -> None:
        """Make room for another one."""
        self._taken.discard(session)
        self._wake_first()

    def drain(self) -> list[Session]:
        """Forget all that are not lent, and return them."""
        found = list[Session]()
        while self._free:
            try:
                found.append(self._free.pop())
            except IndexError:
                break  # another took the last
            self.forget(found[-1])
        return found

    def _wake_first(self) -> None:
        try:
            self._queue.popleft().set()
        except IndexError:
            pass  # nobody waits
