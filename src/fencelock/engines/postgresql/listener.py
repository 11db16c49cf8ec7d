"""Listen for the waiters of one client, and know when to look by itself: the same in each flavor.

One connection listens for all waiters of a client, whatever their number, and only while there are
any. Every few seconds the server is told that they are alive; at the moment when the first of the
leases they wait for would end, it is told to hand expired ones on. So waiters send nothing by
themselves. ``listener_threads.py`` and ``listener_aio.py`` know how to wait for the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...world import Signal, World
from ..waiters import HEARTBEAT_S, Waiters
from .rows import Rows, integer, string
from .settings import Settings
from .statements import Statement, Statements

SETTLE_MIN_S = 0.05  # two looks at leases that end are at least so far apart
CLAIMED_S = 0.6  # by then whoever was notified has claimed the lock, or is passed over
RECONNECT_S = 0.5  # after an error
CLOSE_S = 2.0


class Listener(ABC):
    """Receives the notifications for one client."""

    def __init__(self, world: World, settings: Settings, sql: Statements) -> None:
        self._world = world
        self._settings = settings
        self._sql = sql
        self.inbox = ""
        """The channel on which this client listens: a new one with each connection."""
        self._waiters = Waiters(world.now)
        self._ready = world.signal()
        self._closing = False
        self._settle_at = 0.0
        """When to have expired leases handed on."""

    def joins(self, owner: str) -> bool:
        """This owner is about to join the queue; say whether it may be in it already."""
        return owner not in self._waiters or not self._waiters.join(owner, self._world.now())

    def leaves(self, owner: str) -> None:
        """This owner takes an attempt back: what it was pushed is void."""
        self._waiters.retract(owner)

    def pushed_grant(self, owner: str, ttl: float) -> tuple[int, float] | None:
        """The fence that an owner was handed, and since when it holds at the latest; told once."""
        return self._waiters.pushed_grant(owner, ttl)

    @abstractmethod
    async def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again; return when notifications come."""

    @abstractmethod
    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""

    @abstractmethod
    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal, and listen meanwhile if nobody else does."""

    @abstractmethod
    def expect(self, remaining: float) -> None:
        """A waiter of ours waits for a lease that would end then."""

    @abstractmethod
    def close_nowait(self) -> None:
        """End without waiting."""

    @abstractmethod
    async def close(self) -> None:
        """End, and let go of the connection."""

    def _notified(self, payload: str) -> None:
        """An owner, the fence that it was handed and how long it waited; nothing: stand by."""
        owner, *grant = payload.split(" ")
        if grant:
            self._waiters.notify(owner, (int(grant[0]), float(grant[1])))
        else:
            self._stand_by()

    def _stand_by(self) -> None:
        """A lock was handed to somebody who may be dead."""
        self._settle_at = min(self._settle_at, self._world.now() + CLAIMED_S)

    def _new_inbox(self) -> tuple[str, Statement]:
        """A new channel, and the statement that listens to it."""
        inbox = f"{self._settings.table}_h{self._world.owner()[:16]}"
        return inbox, Statement("", f'LISTEN "{inbox}"')

    def _connected(self, inbox: str) -> None:
        """There is a connection again."""
        self.inbox = inbox
        self._waiters.heartbeat_at = self._settle_at = self._world.now() + HEARTBEAT_S
        self._ready.set()
        self._waiters.wake_all()  # what was notified while nobody listened

    def _due_at(self) -> float:
        """When the server has to be told something next."""
        return min(self._settle_at, self._waiters.heartbeat_at)

    def _settled(self, rows: Rows, now: float) -> None:
        """Expired leases were handed on: wake whom that concerns."""
        ends = [max(float(after), SETTLE_MIN_S) for _, _, after in rows if after is not None]
        self._settle_at = now + min([HEARTBEAT_S, *ends])
        # If the server knows fewer, somebody was taken for dead, or is about to join the queue.
        self._waiters.confirm(integer(rows[0][1]) if rows else 0)
        for owner, _, _ in rows:
            self._waiters.wake(string(owner))
