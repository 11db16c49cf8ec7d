"""Listen to notifications for the waiters of one client: the part that both flavors share.

One connection listens for all waiters of a client, whatever their number, and only while there are
any. Every few seconds it sends the server a heartbeat for them; at the moment when the first of the
leases they wait for would end, it has the server settle: hand expired locks to the next waiters. So
waiters send nothing by themselves. ``listener_threads.py`` and ``listener_aio.py`` wait for the
connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...model import Grant, Request, granted
from ...world import Signal, World
from ..waiters import HEARTBEAT_S, Waiters
from .rows import Rows, integer, string
from .settings import Settings
from .statements import Statement, Statements

SETTLE_MIN_S = 0.05  # the least time between two settles
CLAIMED_S = 0.6  # by then a notified waiter has claimed the lock, or is passed over
RECONNECT_S = 0.5  # after an error
CLOSE_S = 2.0
ANNOUNCED = "*"  # no owner has this name


def changes(table: str) -> str:
    """Return the channel on which clients of these tables announce that a name may have changed."""
    return f"{table}_changed"


class Listener(ABC):
    """Receives the notifications for one client."""

    def __init__(self, world: World, settings: Settings, *sql: Statements) -> None:
        self._world = world
        self._settings = settings
        self._sql = sql
        """Those of locks, and of shares if usable: each has a heartbeat and a settle."""
        self.inbox = ""
        """The channel on which this client listens: a new one with each connection."""
        self._waiters = Waiters(world.now)
        self._observers: list[tuple[str, Signal]] = []
        """Pairs of an observed name and the signal of its observer."""
        self._told_of_changes = world.signal()
        """Set while the connection listens to announcements."""
        self._ready = world.signal()
        self._closing = False
        self._settle_at = 0.0
        """When to send the next settle."""

    def joins(self, owner: str) -> bool:
        """Note that an owner is about to join the queue; return whether it may be in it already."""
        return owner not in self._waiters or not self._waiters.join(owner, self._world.now())

    def leaves(self, owner: str) -> None:
        """Note that an owner withdraws its attempt: a grant pushed to it is void."""
        self._waiters.retract(owner)

    def pushed_grant(self, request: Request) -> Grant | None:
        """Return the grant that was pushed to the owner of a request, if any; only once."""
        name, owner, ttl, share = request.name, request.owner, request.ttl, request.share
        if (handed := self._waiters.pushed_grant(owner, ttl)) is None:
            return None
        if share is not None:
            share = share._replace(slot=self._waiters.pushed_slot(owner))
        return granted(name, owner, handed[0], ttl, handed[1], share)

    async def observe(self, name: str, signal: Signal) -> None:
        """Set the signal when a name is announced; return once announcements are received."""
        self._observers.append((name, signal))
        self._look_now()
        deadline = self._world.now() + self._settings.request_timeout
        await self._world.wait(self._told_of_changes, deadline)

    def unobserve(self, name: str, signal: Signal) -> None:
        """End what ``observe`` began."""
        self._observers.remove((name, signal))

    @abstractmethod
    def _look_now(self) -> None:
        """Have what is due sent now, over a new connection if there is none."""

    @property
    def _in_use(self) -> bool:
        """Whether there are waiters or observers."""
        return bool(len(self._waiters) or self._observers)

    @abstractmethod
    async def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should retry; return once notifications are received."""

    @abstractmethod
    def unwatch(self, owner: str) -> None:
        """End what ``watch`` began."""

    @abstractmethod
    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal; in a program of threads, listen meanwhile if no other thread does."""

    @abstractmethod
    def expect(self, remaining: float) -> None:
        """Plan a settle: a lease that a waiter of ours waits for ends in so many seconds."""

    @abstractmethod
    def close_nowait(self) -> None:
        """End without waiting."""

    @abstractmethod
    async def close(self) -> None:
        """End, and close the connection."""

    def _notified(self, payload: str) -> None:
        """Handle a notification.

        Its payload is an owner, the fence that it was handed, how long it waited and perhaps its
        slot; a star and a name that was announced; or nothing: stand by.
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
        """Set the signals of a name's observers, or of all observers."""
        for observed, signal in list(self._observers):
            if name in (None, observed):
                signal.set()

    def _stand_by(self) -> None:
        """Settle soon: a lock was handed to a waiter that may be dead."""
        self._settle_at = min(self._settle_at, self._world.now() + CLAIMED_S)

    def _new_inbox(self) -> tuple[str, Statement]:
        """Return a new channel, and the statement that listens to it."""
        inbox = f"{self._settings.table}_h{self._world.owner()[:16]}"
        return inbox, Statement("", f'LISTEN "{inbox}"')

    def _connected(self, inbox: str) -> None:
        """Note that a connection listens to this inbox from now on."""
        self.inbox = inbox
        self._waiters.heartbeat_at = self._settle_at = self._world.now() + HEARTBEAT_S
        self._told_of_changes.clear()
        self._ready.set()
        self._waiters.wake_all()  # for what was notified while no connection listened

    def _due_at(self) -> float:
        """Return when the next statement has to be sent."""
        if self._listen_to_changes() is not None:
            return 0.0
        return min(self._settle_at, self._waiters.heartbeat_at)

    def _listen_to_changes(self) -> Statement | None:
        """Return the statement that listens to announcements, if that is needed and not done."""
        if not self._observers or self._told_of_changes.is_set():
            return None
        return Statement("", f'LISTEN "{changes(self._settings.table)}"')

    def _listens_to_changes(self) -> None:
        """Note that announcements come from now on; wake all observers: earlier ones are lost."""
        self._wake_observers()
        self._told_of_changes.set()

    def _settled(self, parts: list[Rows], now: float) -> None:
        """Handle the rows of a settle: wake the waiters that they name, and plan the next one."""
        rows = [row for part in parts for row in part]
        ends = [max(float(after), SETTLE_MIN_S) for _, _, after in rows if after is not None]
        self._settle_at = now + min([HEARTBEAT_S, *ends])
        # If the server knows fewer, a waiter was taken for dead, or is about to join the queue.
        self._waiters.confirm(sum(integer(part[0][1]) for part in parts if part))
        for owner, _, _ in rows:
            self._waiters.wake(string(owner))
