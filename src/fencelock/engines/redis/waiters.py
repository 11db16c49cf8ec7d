"""Who waits at one client, for which names, and what each of them was told.

A book, and no more: it neither listens nor asks anybody. A name stands in it once, whatever the
number of its waiters, with the moment at which somebody should look after it. An owner stands in it
from before it asks for a place in the queue, because it may be called before it waits.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...world import Signal, World

ALIVE_S = 10.0  # how often, at least, a name that is waited for is looked after
GRAIN_S = 0.001  # the server counts a wait in whole milliseconds
APART = 0.01  # of a wait: how far our clock and the server's may run apart, as over a lease
NEVER = float("inf")
LEFT_MAX = 5000  # owners that gave up, and would be known if they were called all the same


class _Name:
    """A name that is waited for, and when to look after it."""

    __slots__ = ("look_at", "owners")

    def __init__(self) -> None:
        self.look_at = 0.0
        self.owners: dict[str, None] = {}  # in the order in which they came


class _Waiter:
    """An owner that may be called."""

    __slots__ = ("called", "handed", "joined_at", "name", "signal")

    def __init__(self, joined_at: float) -> None:
        self.name: _Name | None = None
        self.joined_at = joined_at
        """When it first asked for a place in the queue."""
        self.signal: Signal | None = None
        """There once it waits."""
        self.called = False
        """It was called before it waits."""
        self.handed = ""
        """If it was told that it holds: the fence, and the milliseconds that it waited."""


class Waiters:
    """The waiters of one client."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._now = world.now
        self._mutex = world.mutex()
        self.waiters: dict[str, _Waiter] = {}
        self._names: dict[str, _Name] = {}
        self.left: dict[str, str] = {}
        """Owners that took their attempts back, and for which key: the oldest first."""
        self._next = 0.0
        """When some name must be looked after."""

    def expect(self, name: str, owner: str, now: float) -> None:
        """This owner is about to queue: remember it if it is called before it waits."""
        if owner in self.waiters:
            return
        waiter = self.waiters[owner] = _Waiter(now)  # first: if we are interrupted, it is undone
        with self._mutex:
            found = self._names.get(name)
            if found is None:
                found = self._names[name] = _Name()
            if not found.owners:
                found.look_at = now + ALIVE_S
            waiter.name = found
            found.owners[owner] = None

    def watch(self, name: str, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again."""
        waiter = self.waiters.get(owner)
        if waiter is None:
            self.expect(name, owner, self._now())
            waiter = self.waiters[owner]
        waiter.signal = signal
        if waiter.called:
            waiter.called = False
            signal.set()

    def unwatch(self, owner: str) -> None:
        """This owner waits no more. Its name stays a while: it is often wanted again."""
        waiter = self.waiters.get(owner)
        if waiter is not None:
            if waiter.name is not None:
                waiter.name.owners.pop(owner, None)
            self.waiters.pop(owner, None)

    def leave(self, name: str, owner: str) -> None:
        """This owner takes an attempt back, and is handed the lock no more: that would be an error.

        It is one of an answer that was lost, or of a request that is served late.
        """
        self.forgo(owner)
        with self._mutex:
            if len(self.left) >= LEFT_MAX:
                del self.left[next(iter(self.left))]
            self.left[owner] = name

    def forgo(self, owner: str) -> None:
        """What this owner was told of a grant is over, even where the word is still under way.

        If it waits, it may ask again and must hear of it.
        """
        waiter = self.waiters.get(owner)
        if waiter is None or waiter.signal is None:
            self.unwatch(owner)
        else:
            waiter.joined_at = NEVER
            waiter.handed = ""

    def handed(self, owner: str, ttl: float) -> tuple[int, float] | None:
        """The fence that an owner was handed, and since when it holds at the latest; told once.

        Its wait began, for the server, after we had asked for it: so the moment at which we asked
        and the length of the wait, on the server's clock, are never later than the grant, but for
        what the two clocks run apart meanwhile. A wait that is said to be longer than ours was, or
        so long that little of the ttl would be left, tells nothing: the server is asked.
        """
        waiter = self.waiters.get(owner)
        if waiter is None or not waiter.handed:
            return None
        fence, _, waited_ms = waiter.handed.partition(" ")
        waiter.handed = ""
        waited = int(waited_ms) / 1000
        apart = waited * APART
        since = waiter.joined_at + waited - apart - GRAIN_S
        if apart > ttl / 10 or since > self._now():
            return None
        return int(fence), since

    def _plan(self) -> None:
        """Find the next moment to look, and forget the names that nobody waits for any more.

        Whoever sets an earlier moment meanwhile nudges; a name that comes is not due before it.
        """
        with self._mutex:
            self._next = self._now() + ALIVE_S
            for name, found in list(self._names.items()):
                if not found.owners:
                    del self._names[name]
                elif found.look_at < self._next:
                    self._next = found.look_at

    def _wake_all(self) -> None:
        self._wake(self.waiters)

    def _wake(self, owners: Iterable[str]) -> None:
        for owner in list(owners):
            waiter = self.waiters.get(owner)
            if waiter is not None:
                waiter.called = True  # as when it is called: it may begin to wait at this moment
                if waiter.signal is not None:
                    waiter.called = False
                    waiter.signal.set()
