"""The registry of one client's waiters: the signal that wakes each, and the grant it was pushed.

It neither listens nor sends. Each engine's receiver of pushes (its listener) has one of these. An
owner may be registered before it waits, from the moment at which it requests a position in the
queue, because it may be notified before it waits.

* ``notify`` hands an owner the grant that a push contains; ``wake`` lets it look again.
* After a reconnect all look again (``wake_all``): pushes that were sent meanwhile are lost.
* At least every ``HEARTBEAT_S`` the engine is told that the waiters are alive. If it then knows
  fewer than wait here, a waiter was taken for dead, and all look again (``confirm``).

Any thread may call any method. A thread that waits may be interrupted between any two statements:
each method leaves a consistent registry after each of its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..world import Signal

HEARTBEAT_S = 10.0  # how often, at least, the engine is told that the waiters are alive
GRAIN_S = 0.001  # for a wait that the server rounds to whole milliseconds
DRIFT = 0.01  # of a wait: how far our clock and the server's may run apart, as during a lease
NEVER = float("inf")


class Waiter:
    """An owner that waits, or is about to."""

    __slots__ = ("grant", "joined_at", "notified", "signal", "slot")

    def __init__(self, signal: Signal | None = None, joined_at: float | None = None) -> None:
        self.signal = signal
        """What wakes it; None until it waits."""
        self.joined_at = joined_at
        """When it first requested a position in the queue; NEVER if that attempt was taken back."""
        self.notified = False
        """Whether it was notified before it waited."""
        self.grant: tuple[int, float] | None = None
        """The grant that a push contained: the fence, and the seconds that it waited."""
        self.slot: int | None = None
        """The slot of that grant, if it is one of a semaphore."""


class Waiters:
    """The waiters of one client, by owner."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.by_owner: dict[str, Waiter] = {}
        self.heartbeat_at = 0.0
        """When the next heartbeat is due."""

    def __contains__(self, owner: object) -> bool:
        return owner in self.by_owner

    def __len__(self) -> int:
        return len(self.by_owner)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.by_owner))

    def join(self, owner: str, now: float) -> bool:
        """Note that an owner is about to request a queue position; False if it did before."""
        waiter = self.by_owner.get(owner)
        if waiter is None:
            self.by_owner[owner] = Waiter(None, now)
            return True
        if waiter.joined_at is not None:
            return False
        waiter.joined_at = now
        return True

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal whenever this owner should look again; at once if it was notified."""
        waiter = self.by_owner.get(owner)
        if waiter is None:
            self.by_owner[owner] = Waiter(signal)
            return
        waiter.signal = signal
        if waiter.notified:
            waiter.notified = False
            signal.set()

    def unwatch(self, owner: str) -> None:
        """Forget an owner that waits no more."""
        self.by_owner.pop(owner, None)

    def retract(self, owner: str) -> None:
        """Void the grant that was pushed to an owner, even where the push is still under way.

        The owner takes an attempt back. If it waits, it may try again and must be notified of that.
        """
        waiter = self.by_owner.get(owner)
        if waiter is not None:
            waiter.joined_at = NEVER
            waiter.grant = None

    def notify(self, owner: str, grant: tuple[int, float] | None, slot: int | None = None) -> bool:
        """Wake an owner with its grant, and return whether it is known here.

        ``grant`` is the fence and the seconds that it waited; None when it has to claim the lock.
        """
        waiter = self.by_owner.get(owner)
        if waiter is None:
            return False
        waiter.slot, waiter.grant = slot, grant
        _wake(waiter)
        return True

    def pushed_slot(self, owner: str) -> int | None:
        """Return the slot of a semaphore that an owner was granted last."""
        waiter = self.by_owner.get(owner)
        return None if waiter is None else waiter.slot

    def wake(self, owner: str) -> bool:
        """Let an owner look again, and return whether it is known here."""
        waiter = self.by_owner.get(owner)
        if waiter is None:
            return False
        _wake(waiter)
        return True

    def wake_all(self, owners: Iterable[str] | None = None) -> None:
        """Let these owners look again, or all."""
        for owner in list(self.by_owner if owners is None else owners):
            self.wake(owner)

    def pushed_grant(self, owner: str, ttl: float) -> tuple[int, float] | None:
        """Return, once, the fence that an owner was granted, and a moment not after its grant.

        The wait began, for the server, after our request for it: so the moment of our request plus
        the length of the wait on the server's clock is never later than the grant, but for what the
        two clocks run apart meanwhile. A wait longer than ours was, or so long that this would take
        more than a tenth of the ttl, tells nothing: the server is queried.
        """
        waiter = self.by_owner.get(owner)
        if waiter is None or waiter.grant is None or waiter.joined_at is None:
            return None
        (fence, waited), waiter.grant = waiter.grant, None
        drift = waited * DRIFT
        since = waiter.joined_at + waited - drift - GRAIN_S
        if waited < 0 or drift > ttl / 10 or since > self._now():
            return None
        return fence, since

    def heartbeat_due(self, now: float) -> bool:
        """Return whether a heartbeat is due now, and if so schedule the next one."""
        if now < self.heartbeat_at:
            return False
        self.heartbeat_at = now + HEARTBEAT_S
        return True

    def confirm(self, known: int) -> bool:
        """Return True if the engine knows as many waiters as wait here; else let all look again."""
        if known >= len(self.by_owner):
            return True
        self.wake_all()
        return False


def _wake(waiter: Waiter) -> None:
    waiter.notified = True  # first: the owner may begin to wait at this very moment
    if waiter.signal is not None:
        waiter.notified = False
        waiter.signal.set()
