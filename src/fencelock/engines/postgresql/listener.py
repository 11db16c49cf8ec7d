"""What a client hears for its waiters, and when it has to ask by itself: the same in each flavor.

One connection hears for all waiters of a client, whatever their number, and only while there are
any. Every few seconds the server is told that they are alive; at the moment when the first of the
leases they wait for would end, it is asked to hand expired ones on. So waiters ask nothing by
themselves. ``listener_threads.py`` and ``listener_aio.py`` know how to wait for the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from ...world import Signal, World
from .settings import Settings
from .statements import LeaseStatements, Statement
from .wire.connection import Rows

ALIVE_S = 10.0  # how often the waiters are said to be alive
TEND_MIN_S = 0.05  # two looks at leases that end are at least so far apart
CLAIMED_S = 0.6  # by then whoever was called has claimed the lock, or is passed over
AGAIN_S = 0.5  # after trouble
CLOSE_S = 2.0
GRAIN_S = 0.001  # for what a wait loses when it is told
APART = 0.01  # of a wait: how far our clock and the server's may run apart, as over a lease
NEVER = float("inf")


class Watch:
    """Somebody who waits."""

    __slots__ = ("handed", "joined_at", "signal")

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.joined_at: float | None = None
        """When it first asked for a place in the queue; never, if that attempt was taken back."""
        self.handed: tuple[int, float] | None = None
        """It was told that it holds: the fence, and the seconds that it waited."""


class Ears:
    """Whom one client hears for."""

    def __init__(self, world: World, settings: Settings, say: LeaseStatements) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self.inbox = ""
        """The channel on which this client hears: a new one with each connection."""
        self._watches: dict[str, Watch] = {}
        self._ready = world.signal()
        self._closing = False
        self._tend_at = 0.0
        self._alive_at = 0.0

    def joins(self, owner: str) -> bool:
        """This owner is about to ask for a place in the queue; say whether it may have one."""
        watch = self._watches.get(owner)
        if watch is None or watch.joined_at is not None:
            return True
        watch.joined_at = self._world.now()
        return False

    def leaves(self, owner: str) -> None:
        """This owner takes an attempt back. If it waits, it may ask again and must hear of it.

        What it was told of a grant is over then, even where the word is still under way.
        """
        watch = self._watches.get(owner)
        if watch is not None:
            watch.joined_at, watch.handed = NEVER, None

    def handed(self, owner: str, ttl: float) -> tuple[int, float] | None:
        """The fence that an owner was handed, and since when it holds at the latest; told once.

        Its wait began, for the server, after we had asked for it: so the moment at which we asked
        and the length of the wait, on the server's clock, are never later than the grant, but for
        what the two clocks run apart meanwhile. A wait that is said to be longer than ours was, or
        so long that little of the ttl would be left, tells nothing: the server is asked.
        """
        watch = self._watches.get(owner)
        if watch is None or watch.handed is None or watch.joined_at is None:
            return None
        (fence, waited), watch.handed = watch.handed, None
        apart = waited * APART
        since = watch.joined_at + waited - apart - GRAIN_S
        if waited < 0 or apart > ttl / 10 or since > self._world.now():
            return None
        return fence, since

    def _understand(self, word: str) -> None:
        """An owner, and what it was handed; without that it is called, or asked to stand by."""
        owner, *grant = word.split(" ")
        watch = self._watches.get(owner)
        if watch is not None:
            if grant:
                watch.handed = int(grant[0]), float(grant[1])
            watch.signal.set()
        if not grant:
            self._stand_by()

    def _stand_by(self) -> None:
        """Somebody was called who may be dead."""
        self._tend_at = min(self._tend_at, self._world.now() + CLAIMED_S)

    def _channel(self) -> str:
        """A new inbox."""
        return f"{self._settings.table}_h{self._world.owner()[:16]}"  # h: it can be handed a lock

    def _hears(self, inbox: str) -> None:
        """There is a connection again."""
        self.inbox = inbox
        self._alive_at = self._tend_at = self._world.now() + ALIVE_S
        self._ready.set()
        self._wake_all()  # what was told while we were deaf

    def _tended(self, rows: Rows, now: float) -> None:
        """Expired leases were handed on: wake whom that concerns."""
        soon = [float(after) for _, _, after in rows if after is not None]
        self._tend_at = now + min([ALIVE_S, *(max(after, TEND_MIN_S) for after in soon)])
        waiting = int(rows[0][1] or 0) if rows else 0
        if waiting < len(self._watches):  # somebody was taken for dead, or is about to queue
            self._wake_all()
        for called, _, _ in rows:
            watch = self._watches.get((called or b"").decode())
            if watch is not None:
                watch.signal.set()

    def _wake_all(self) -> None:
        for watch in list(self._watches.values()):
            watch.signal.set()


class Listener(Protocol):
    """The ears of one client, in either flavor."""

    inbox: str

    def joins(self, owner: str) -> bool: ...

    def leaves(self, owner: str) -> None: ...

    def handed(self, owner: str, ttl: float) -> tuple[int, float] | None: ...

    async def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again; return when we can hear."""
        ...

    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""
        ...

    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal, and hear meanwhile if nobody else does."""
        ...

    def ask(
        self, statement: Statement, values: Sequence[object], owner: str
    ) -> Awaitable[Rows | None]:
        """Ask over the connection that hears, if it has nothing else to do; else None.

        Over another connection, another process of the server would have to wake up for each word.
        """
        ...

    def expect(self, remaining: float) -> None:
        """A waiter of ours waits for a lease that would end then."""
        ...

    def close_nowait(self) -> None:
        """End without waiting."""
        ...

    async def close(self) -> None:
        """End, and let go of the connection."""
        ...
