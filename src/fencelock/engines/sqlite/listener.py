"""Receive pushes for the waiters of one client, and find locks that came free without a push.

One listener serves all waiters of a client, whatever their number, and only while there are any.
It receives from its inbox; a few times a second it reads, in a few microseconds, whether the file
has changed, and only then looks for a holder, or a waiter that was handed the lock, that died
without releasing it. So no waiter sleeps beside a free lock, and many waiters cost hardly more than
one. Now and then it refreshes the queue rows of its waiters, which tells others that they are
alive.

Observers of a name are notified by the same inbox. An announcement goes to all inboxes of the file:
every client with observers has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ...errors import FencelockError
from ...world import Adopted, Job, Signal, World, sleep
from ..waiters import HEARTBEAT_S, Waiters
from .handover import Handover, Handovers
from .transactions import Transactions
from .wire.inbox import Delivery, Inbox, InboxFolder

SCAN_S = 0.3  # how long a death can go unnoticed
POLL_MIN_S, POLL_MAX_S = 0.001, 0.05  # where there is no push
CLOSE_S = 2.0
ANNOUNCED = "@"  # begins a message with the name that has changed; no owner id begins so


class Listener:
    """One background job that wakes the waiters of one client."""

    def __init__(
        self, world: World, blocking: Adopted, path: str, transactions: Transactions, push: bool
    ) -> None:
        self._world = world
        self._blocking = blocking
        self._blocking_receive = world.adopt("fencelock-inbox")
        self._transactions = transactions
        self._push = push
        self._mutex = world.mutex()
        self._folder = InboxFolder(path)
        self._inbox: Inbox | None = None
        self._waiters = Waiters(world.now)
        self._queued: dict[str, str] = {}
        """By owner, the name or the key in whose queue it may have a row."""
        self._observers: list[tuple[str, Signal]] = []
        self._abandoned: dict[str, None] = {}
        """Owners that were handed a lock and wait no more."""
        self._wanted = world.signal()
        self._interrupt = world.signal()
        self._job: Job | None = None
        self._ticket: object = None
        """The token of the job that listens: any other ends."""
        self._closing = False
        self._last_change: object = None
        """The ``data_version`` of the file that was read last."""
        self._scanned_change: object = None
        """The ``data_version`` at the last scan; None where a scan is needed anyway."""
        self._next_expiry = 0.0
        """When the first lock that is waited for would expire."""

    @property
    def inbox(self) -> str:
        """The name of our inbox for queue rows; empty while nobody waits here."""
        return self._inbox.id if self._inbox is not None else ""

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should try again."""
        self._start()
        self._waiters.watch(owner, signal)
        self._wanted.set()

    def _start(self) -> None:
        """Open the inbox and begin to listen, unless that was done before."""
        with self._mutex:  # two threads that begin to wait at the same time share one inbox
            if self._inbox is None:
                self._inbox = Inbox(self._folder, self._world.owner()[:16], self._push)
            if self._job is None:
                # A signal handler may raise when the thread runs and before ``_job`` is set: then
                # the next call starts another, and this one ends.
                self._ticket = ticket = object()
                listening = partial(self._listen, self._inbox, ticket)
                self._job = self._world.keep(listening, "fencelock-listener")

    def unwatch(self, owner: str) -> None:
        """Forget the signal of an owner that waits no more."""
        self._waiters.unwatch(owner)

    def observe(self, name: str, signal: Signal) -> None:
        """Set the signal when the name is announced; without push observers only look."""
        if self._push:
            with self._mutex:
                self._observers.append((name, signal))
            self._start()
            self._wanted.set()

    def unobserve(self, name: str, signal: Signal) -> None:
        """End what ``observe`` began."""
        with self._mutex:
            if (name, signal) in self._observers:
                self._observers.remove((name, signal))

    async def announce(self, name: str) -> None:
        """Notify all observers of a name, here and in other processes."""
        self._tell_observers(name)
        message = (ANNOUNCED + name).encode()
        await self._blocking(self._folder.send_to_all, message, self.inbox)

    def _tell_observers(self, name: str | None = None) -> None:
        """Set the signals of the observers of a name, or of all names."""
        with self._mutex:
            for observed, signal in self._observers:
                if name in (None, observed):
                    signal.set()

    def joining(self, owner: str, name: str) -> None:
        """Note that an owner is about to join the queue of a name."""
        self._queued[owner] = name

    def left(self, owner: str) -> None:
        """Note that an owner has the lock, or has left the queue."""
        self._queued.pop(owner, None)

    def rescan(self) -> None:
        """Scan again soon: a waiter of ours has joined a queue, so the last scan does not count."""
        self._scanned_change = None
        self._next_expiry = 0.0

    async def push(self, handovers: Handovers) -> None:
        """Notify waiters that they were given a lock; a dead one is passed over at once."""
        untold = [*handovers]
        while untold:
            handover = untold.pop(0)
            if self._waiters.wake(handover.owner):
                continue
            delivery = self._folder.send(handover.inbox, handover.owner.encode())
            if delivery is Delivery.DEAD:
                untold += await self._blocking(
                    self._transactions.drop_dead_client, self._world.now(), handover
                )

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._wanted.set()
        self._interrupt.set()

    async def close(self) -> None:
        """End, and remove the inbox."""
        self.close_nowait()
        if self._inbox is not None:
            self._inbox.wake()
            if self._job is not None:
                await self._job.join(self._world.now() + CLOSE_S)
            self._inbox.close()
        self._folder.close()
        await self._blocking_receive.close()

    async def _listen(self, inbox: Inbox, ticket: object) -> None:
        """Listen until closed. The event loop itself receives where there is one, or a thread."""
        on_loop = self._world.flavor == "asyncio" and not inbox.silent
        if on_loop:
            inbox.attach(self._notify)
        try:
            await self._run(inbox, ticket, self._wait_on_loop if on_loop else self._wait_in_thread)
        finally:
            if on_loop:
                inbox.detach()

    async def _run(
        self, inbox: Inbox, ticket: object, wait: Callable[[Inbox, float], Awaitable[None]]
    ) -> None:
        while not self._closing and self._ticket is ticket:
            if not self._is_wanted():
                self._wanted.clear()
                if not self._is_wanted() and not self._closing:  # checked again after the clear
                    await self._world.wait(self._wanted, None)
                continue
            try:
                now = self._world.now()
                if self._waiters.heartbeat_due(now):
                    await self._heartbeat(inbox, now)
                await wait(inbox, min(self._waiters.heartbeat_at, self._next_expiry))
                await self._withdraw_abandoned()
                await self._scan(inbox, self._world.now())
            except FencelockError:  # the waiters get the same error in their own calls
                await sleep(self._world, SCAN_S)

    def _is_wanted(self) -> bool:
        return bool(self._waiters or self._queued or self._observers)

    def _may_wait(self) -> bool:
        """Return whether there is nothing to do but to receive."""
        return not self._closing and not self._abandoned and self._is_wanted()

    async def _wait_on_loop(self, inbox: Inbox, until: float) -> None:
        """Let the loop deliver messages, until the file changes or until a moment."""
        while self._may_wait() and (now := self._world.now()) < until:
            await self._world.wait(self._interrupt, min(now + SCAN_S, until))
            # Read in the event loop: a hop to a thread costs more than the read.
            change = self._transactions.changes_nowait()
            if change is None:
                if await self._blocking(self._has_changed):
                    break
            elif self._is_new(change):
                break

    async def _wait_in_thread(self, inbox: Inbox, until: float) -> None:
        await self._blocking_receive(self._receive, inbox, until)

    def _receive(self, inbox: Inbox, until: float) -> None:
        """Deliver messages, until another client changes the file or until a moment."""
        pause = POLL_MIN_S if inbox.silent else SCAN_S
        read_at = 0.0
        while self._may_wait() and (now := self._world.now()) < until:
            messages = inbox.receive(min(pause, until - now))
            self._notify(messages)
            if messages and now < read_at:
                continue  # many messages must not keep us from reading, but few may
            read_at = now + SCAN_S
            if self._has_changed():
                break
            if inbox.silent:
                pause = min(pause * 1.5, POLL_MAX_S)

    def _has_changed(self) -> bool:
        """Return whether another client has changed the file since the last scan."""
        return self._is_new(self._transactions.changes(self._world.now()))

    def _is_new(self, change: object) -> bool:
        self._last_change = change
        return change != self._scanned_change

    async def _scan(self, inbox: Inbox, now: float) -> None:
        """Wake our waiters that were handed a lock or passed over; hand on locks that are free."""
        self._scanned_change = self._last_change
        rows, next_expiry = await self._blocking(self._transactions.due_waiters, now, inbox.id)
        self._next_expiry = min(next_expiry, now + HEARTBEAT_S)
        self._notify([owner for _, owner, wakes in rows if wakes])
        for name in dict.fromkeys(name for name, _, wakes in rows if not wakes):
            await self.push(await self._blocking(self._transactions.hand_on_if_free, now, name))
            self._scanned_change = None

    async def _heartbeat(self, inbox: Inbox, now: float) -> None:
        """Refresh our queue rows; if any was lost, all waiters must try again."""
        if self._observers and inbox.heal():
            self._tell_observers()
        if not self._waiters and not self._queued:
            return
        self._abandoned |= dict.fromkeys(o for o in list(self._queued) if o not in self._waiters)
        await self._withdraw_abandoned()
        alive = await self._blocking(self._transactions.refresh, now, inbox.id)
        if alive < len(self._waiters):
            inbox.heal()  # before they try again: another client may push to it at once
            self._waiters.wake_all()

    async def _withdraw_abandoned(self) -> None:
        """Take owners out of the queue that wait no more: their withdrawal has failed, or is late.

        An owner queues only while it is watched, and is forgotten once it is granted the lock.
        """
        for owner in list(self._abandoned):
            name = self._queued.get(owner)
            if name is not None and owner not in self._waiters:
                waiter = Handover(name, owner, self.inbox)
                handovers = await self._blocking(
                    self._transactions.drop_abandoned, self._world.now(), waiter
                )
                self.left(owner)
                await self.push(handovers)
            self._abandoned.pop(owner, None)
        self._interrupt.clear()

    def _notify(self, owners: Sequence[str]) -> None:
        """Wake the owners that were handed a lock; give it back for those who wait no more."""
        for owner in owners:
            if owner.startswith(ANNOUNCED):
                self._tell_observers(owner.removeprefix(ANNOUNCED))
            elif not self._waiters.wake(owner) and owner in self._queued:
                self._abandoned[owner] = None
                self._interrupt.set()
