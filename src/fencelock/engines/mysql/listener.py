"""Wake the waiters of one client: one connection for all of them, blocked in one statement.

MySQL has no notifications. So a client that waits keeps one session that sleeps inside the server
and has a *wake-up lock*: a lock by ``GET_LOCK`` whose name is in the rows of its waiters. The
client that hands a lock on ends that sleep, with ``KILL QUERY`` for the session that has the
wake-up lock. An account may always do that to its own sessions, and it cannot hit another session:
the owner of the wake-up lock is determined in the same statement.

Each sleep begins with a query, in the same statement, for waiters of ours that were handed a lock,
or whose lock is free or expired. So a wake-up that comes too early is not missed; and where it
cannot be sent (another account, another node of a cluster, a caller that died) the next query comes
soon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ...errors import FencelockError
from ...world import Job, Signal, World, sleep
from ..waiters import Waiters
from .errors import INTERRUPTED
from .settings import Settings
from .wire.codec import ServerError
from .wire.connection import Connection, Wire

NAP_S = 0.25  # how long a death, or a wake-up that could not be sent, can go unnoticed
CLOSE_S = 2.0
SPIN_S = 0.002  # a pause while the notified waiters send their requests


class ListenerSql(Protocol):
    """The packets of a listener: ``LeaseSql`` has them for locks, ``ShareSql`` for shares."""

    def listener_setup(self, inbox: str) -> str: ...

    def listen(self, inbox: str, nap_s: float) -> str: ...

    def listen_for(self, owner: str, nap_s: float) -> str: ...

    def heartbeat(self, inbox: str, owners: Sequence[str]) -> str: ...


class Listener:
    """The session of one client that sleeps inside the server, and the waiters that it wakes."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        wire: Wire,
        sql: ListenerSql,
        decline: Callable[[str], Awaitable[None]],
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._sql = sql
        self._decline = decline
        """Returns the lock that was handed to an owner that has left."""
        self.inbox = world.owner()[:16]
        self._mutex = world.mutex()
        self._waiters = Waiters(world.now)
        self._notified: set[str] = set()
        self._new: set[str] = set()
        self._waited_for = world.signal()
        self._job: Job | None = None
        self._listening = False
        """Whether the job runs: a signal handler may interrupt ``watch`` before ``_job`` is set."""
        self._connection: Connection | None = None
        self._include_strays = False
        """Whether the next query includes rows of owners that have left: a waiter of ours was woken
        in vain, or none was woken for a while."""
        self._closing = False

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should retry."""
        self._waiters.watch(owner, signal)
        self._new.add(owner)
        with self._mutex:
            if self._job is None and not self._listening:
                self._job = self._world.keep(self._listen, "fencelock-listener")
        self._waited_for.set()

    def unwatch(self, owner: str) -> None:
        """End what ``watch`` began."""
        self._waiters.unwatch(owner)
        self._notified.discard(owner)
        self._new.discard(owner)

    def notify(self, owner: bytes | None) -> bool:
        """Wake the waiter that was handed a lock, if it is ours; return whether there was one."""
        if owner is not None:
            self._wake(owner.decode())
        return owner is not None

    @property
    def has_waiters(self) -> bool:
        """Whether this client has waiters."""
        return bool(self._waiters)

    def resume(self, in_vain: bool) -> None:
        """Let a waiter wait on; if it was woken in vain, send a heartbeat and query all rows."""
        if in_vain:
            self._include_strays, self._waiters.heartbeat_at = True, 0.0
        self._waited_for.set()

    def was_notified(self, owner: str) -> bool:
        """Return whether this owner was woken since its last request."""
        if owner in self._notified:
            self._notified.discard(owner)
            return True
        return False

    def is_new(self, owner: str) -> bool:
        """Return whether this owner has sent no request since it began to watch."""
        if owner in self._new:
            self._new.discard(owner)
            return True
        return False

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._waited_for.set()

    async def close(self) -> None:
        """End: the session is closed, and its sleep ends by itself within a nap."""
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    async def _listen(self) -> None:
        with self._mutex:
            if self._listening:
                return
            self._listening = True
        try:
            while not self._closing:
                await self._listen_once()
        finally:  # also when cancelled: it begins anew, with a session that has no reply under way
            self._listening = False
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._wake_all()

    async def _listen_once(self) -> None:
        if not self._has_unnotified():
            self._waited_for.clear()
            if not self._has_unnotified() and not self._closing:
                await self._world.wait(self._waited_for, None)
            return
        try:
            await self._query_and_wake()
        except (FencelockError, ServerError):  # the waiters meet the same error in their own calls
            await sleep(self._world, NAP_S)
            self._wake_all()

    async def _query_and_wake(self) -> None:
        """Query and sleep in the server, and wake the waiters that it names, until none is left."""
        connection, timeout = await self._ready(), self._settings.request_timeout + NAP_S
        while self._has_unnotified() and not self._closing:
            if self._waiters.heartbeat_due(self._world.now()):
                await self._send_heartbeat(connection)
            try:
                (reply,) = await connection.query(self._nap(), timeout)
                ((owners, woken),) = reply.rows
            except ServerError as error:
                if error.code not in INTERRUPTED:
                    raise
                owners, woken = None, b"1"
            if owners is not None:
                await self._wake_those(owners.decode().split(","))
            elif woken == b"1" and len(self._waiters) == 1:
                self._wake(next(iter(self._waiters), ""))  # it can only be for this one
            else:  # a wake-up for an owner that has left may have come between two sleeps
                self._include_strays = True

    def _nap(self) -> str:
        """Return the statement that queries and sleeps, for all waiters; mostly that is one."""
        owners = list(self._waiters)
        include_strays, self._include_strays = self._include_strays, False
        if len(owners) == 1 and not include_strays:
            return self._sql.listen_for(owners[0], NAP_S)
        return self._sql.listen(self.inbox, NAP_S)

    async def _ready(self) -> Connection:
        """Return the session that has the wake-up lock; connect if there is none."""
        if self._connection is None or self._connection.closed_by_server():
            self._connection = await self._wire.connect(self._world, self._settings)
            setup = self._sql.listener_setup(self.inbox)
            await self._connection.query(setup, self._settings.request_timeout)
            self._waiters.heartbeat_at = 0.0  # without the lock our waiters may be passed over
        return self._connection

    async def _send_heartbeat(self, connection: Connection) -> None:
        """Mark our waiters as alive; if one was removed from its queue, wake all."""
        owners = list(self._waiters)
        sql = self._sql.heartbeat(self.inbox, owners)
        (reply,) = await connection.query(sql, self._settings.request_timeout)
        if reply.affected < len(owners):
            self._wake_all()

    async def _wake_those(self, owners: list[str]) -> None:
        again = [owner for owner in owners if owner in self._notified]
        strays = [owner for owner in owners if not self._wake(owner)]
        for owner in strays:
            self._include_strays = True  # the next owner may have left, too
            await self._decline(owner)
        if len(again) + len(strays) == len(owners):
            await sleep(self._world, SPIN_S)

    def _has_unnotified(self) -> bool:
        """Return whether any waiter has not been notified since its last request."""
        return any(owner not in self._notified for owner in self._waiters)

    def _wake_all(self) -> None:
        for owner in self._waiters:
            self._wake(owner)

    def _wake(self, owner: str) -> bool:
        if owner not in self._waiters:
            return False
        self._notified.add(owner)  # before it is woken: its request checks this
        return self._waiters.wake(owner)
