"""Keep the waiters of one client: which signal wakes each of them, and the grant it was pushed.

A registry, and no more: it neither listens nor sends. Whatever receives an engine's pushes (its
listener) has one of these. An owner may be registered before it waits, from the moment at which it
asks for a position in the queue, because it may be notified before it waits.

* ``notify`` hands an owner what a push said of it; ``wake`` lets it look again.
* After a reconnect all look again (``wake_all``): what was pushed meanwhile is lost.
* Every ``HEARTBEAT_S`` the engine is told that the waiters are alive. If it then knows fewer than
  wait here, somebody was taken for dead and all look again (``confirm``).

Any thread may call any method. A thread that waits may be interrupted between any two statements:
each method leaves a registry that is right after each of its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..world import Signal

HEARTBEAT_S = 10.0  # how often, at least, the engine is told that the waiters are alive
GRAIN_S = 0.001  # for what a wait loses when it is told in whole milliseconds
DRIFT = 0.01  # of a wait: how far our clock and the server's may run apart, as over a lease
NEVER = float("inf")


class Waiter:
    """An owner that waits, or is about to."""

    __slots__ = ("grant", "joined_at", "notified", "signal", "slot")

    def __init__(self, signal: Signal | None = None, joined_at: float | None = None) -> None:
        self.signal = signal
        """There once it waits."""
        self.joined_at = joined_at
        """When it first asked for a position in the queue; NEVER if that attempt was taken back."""
        self.notified = False
        """It was notified before it waits."""
        self.grant: tuple[int, float] | None = None
        """What a push said that it holds: the fence, and the seconds that it waited."""
        self.slot: int | None = None
        """The slot that came with it, if that was one of a semaphore."""


class Waiters:
    """The waiters of one client, by owner."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.by_owner: dict[str, Waiter] = {}
        self.heartbeat_at = 0.0
        """When the engine is to be told next that the waiters are alive."""

    def __contains__(self, owner: object) -> bool:
        return owner in self.by_owner

    def __len__(self) -> int:
        return len(self.by_owner)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.by_owner))

    def join(self, owner: str, now: float) -> bool:
        """Note that an owner is about to ask for a queue position; False if it did before."""
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
        """Void what an owner was pushed, even where the push is still under way.

        It takes an attempt back. If it waits, it may try again and must be notified of it.
        """
        waiter = self.by_owner.get(owner)
        if waiter is not None:
            waiter.joined_at = NEVER
            waiter.grant = None

    def notify(self, owner: str, grant: tuple[int, float] | None, slot: int | None = None) -> bool:
        """Wake an owner with what it was granted, and say whether it is known here.

        ``grant`` is the fence and the seconds that it waited; None when it has to ask for it.
        """
        waiter = self.by_owner.get(owner)
        if waiter is None:
            return False
        waiter.slot, waiter.grant = slot, grant
        _wake(waiter)
        return True

    def pushed_slot(self, owner: str) -> int | None:
        """The slot of a semaphore that an owner was granted last."""
        waiter = self.by_owner.get(owner)
        return None if waiter is None else waiter.slot

    def wake(self, owner: str) -> bool:
        """Let an owner look again, and say whether it is known here."""
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
        """Return, once, the fence that an owner was granted, and since when it holds at the latest.

        Its wait began, for the server, after we had asked for it: so the moment at which we asked
        and the length of the wait, on the server's clock, are never later than the grant, but for
        what the two clocks run apart meanwhile. A wait that is said to be longer than ours was, or
        so long that little of the ttl would be left, tells nothing: the server is asked.
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
        """Whether to tell the engine now that the waiters are alive; then not for a while."""
        if now < self.heartbeat_at:
            return False
        self.heartbeat_at = now + HEARTBEAT_S
        return True

    def confirm(self, known: int) -> bool:
        """Let all look again if the engine knows fewer waiters than wait here, and say so."""
        if known >= len(self.by_owner):
            return True
        self.wake_all()
        return False


def _wake(waiter: Waiter) -> None:
    waiter.notified = True  # first: it may begin to wait at this very moment
    if waiter.signal is not None:
        waiter.notified = False
        waiter.signal.set()
