"""Listen for the waiters of one client, and know when to look by itself: the same in each flavor.

One connection listens for all waiters of a client, whatever their number, and only while there are
any. Every few seconds the server is told that they are alive; at the moment when the first of the
leases they wait for would end, it is told to hand expired ones on. So waiters send nothing by
themselves. ``listener_threads.py`` and ``listener_aio.py`` know how to wait for the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...model import Grant, Request, granted
from ...world import Signal, World
from ..waiters import HEARTBEAT_S, Waiters
from .rows import Rows, integer, string
from .settings import Settings
from .statements import Statement, Statements

SETTLE_MIN_S = 0.05  # two looks at leases that end are at least so far apart
CLAIMED_S = 0.6  # by then whoever was notified has claimed the lock, or is passed over
RECONNECT_S = 0.5  # after an error
CLOSE_S = 2.0
ANNOUNCED = "*"  # no owner is called so


def changes(table: str) -> str:
    """The channel on which clients of these tables announce that a name may have changed."""
    return f"{table}_changed"


class Listener(ABC):
    """Receives the notifications for one client."""

    def __init__(self, world: World, settings: Settings, *sql: Statements) -> None:
        self._world = world
        self._settings = settings
        self._sql = sql
        """Of locks, and of shares where those can be used: each has a heartbeat and a settle."""
        self.inbox = ""
        """The channel on which this client listens: a new one with each connection."""
        self._waiters = Waiters(world.now)
        self._observers: list[tuple[str, Signal]] = []
        """The names that are observed, with the signal of each who does."""
        self._told_of_changes = world.signal()
        """Set while the connection listens to what is announced."""
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

    def pushed_grant(self, request: Request) -> Grant | None:
        """What the owner of a request was handed, since when it holds at the latest; told once."""
        name, owner, ttl, share = request.name, request.owner, request.ttl, request.share
        if (handed := self._waiters.pushed_grant(owner, ttl)) is None:
            return None
        if share is not None:
            share = share._replace(slot=self._waiters.pushed_slot(owner))
        return granted(name, owner, handed[0], ttl, handed[1], share)

    async def observe(self, name: str, signal: Signal) -> None:
        """Set the signal when a name is announced; return when announcements come."""
        self._observers.append((name, signal))
        self._look_now()
        deadline = self._world.now() + self._settings.request_timeout
        await self._world.wait(self._told_of_changes, deadline)

    def unobserve(self, name: str, signal: Signal) -> None:
        """This signal is not to be set any more."""
        self._observers.remove((name, signal))

    @abstractmethod
    def _look_now(self) -> None:
        """Have the connection see to what is due, and make it if there is none."""

    @property
    def _in_use(self) -> bool:
        """Whether there is anybody to listen for."""
        return bool(len(self._waiters) or self._observers)

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
        """An owner, the fence that it was handed, how long it waited and perhaps its slot; a star
        and a name that was announced; nothing: stand by.
        """
        owner, *grant = payload.split(" ")
        if owner == ANNOUNCED:
            self._wake_observers(payload.removeprefix(f"{ANNOUNCED} "))
        elif grant:
            fence, waited, *slot = grant
            self._waiters.notify(owner, (int(fence), float(waited)), *map(int, slot))
        else:
            self._stand_by()

    def _wake_observers(self, name: str | None = None) -> None:
        """Let the observers of a name look again, or all."""
        for observed, signal in list(self._observers):
            if name in (None, observed):
                signal.set()

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
        self._told_of_changes.clear()
        self._ready.set()
        self._waiters.wake_all()  # what was notified while nobody listened

    def _due_at(self) -> float:
        """When the server has to be told something next."""
        if self._listen_to_changes() is not None:
            return 0.0
        return min(self._settle_at, self._waiters.heartbeat_at)

    def _listen_to_changes(self) -> Statement | None:
        """The statement that listens to announcements, if there are observers and it does not."""
        if not self._observers or self._told_of_changes.is_set():
            return None
        return Statement("", f'LISTEN "{changes(self._settings.table)}"')

    def _listens_to_changes(self) -> None:
        """The connection is told of changes from now on; what was announced before is lost."""
        self._wake_observers()
        self._told_of_changes.set()

    def _settled(self, parts: list[Rows], now: float) -> None:
        """Expired leases were handed on: wake whom that concerns."""
        rows = [row for part in parts for row in part]
        ends = [max(float(after), SETTLE_MIN_S) for _, _, after in rows if after is not None]
        self._settle_at = now + min([HEARTBEAT_S, *ends])
        # If the server knows fewer, somebody was taken for dead, or is about to join the queue.
        self._waiters.confirm(sum(integer(part[0][1]) for part in parts if part))
        for owner, _, _ in rows:
            self._waiters.wake(string(owner))
