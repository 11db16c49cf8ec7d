"""Hears pushes for the waiters of one client, and finds what no push tells.

One listener serves all waiters of a client, whatever their number, and only while there are any.
It hears its inbox; a few times a second it asks the file, in a few microseconds, whether anything
has changed, and only then looks for a holder or a called waiter that died without a word. So nobody
sleeps beside a free lock, and many waiters cost hardly more than one. It also says now and then
that its waiters are alive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ...errors import FencelockError
from ...world import Adopted, Job, Signal, World, sleep
from .rows import Call
from .transactions import Ledger
from .wire.database import Handle
from .wire.inbox import Delivery, Inbox, Post

SWEEP_S = 0.3  # how long a death can go unnoticed
ALIVE_S = 10.0  # how often the waiters are said to be alive
POLL_MIN_S, POLL_MAX_S = 0.001, 0.05  # where there is no push
CLOSE_S = 2.0
VERSION = "PRAGMA data_version"


class Listener:
    """The ears of one client."""

    def __init__(self, world: World, hands: Adopted, handle: Handle, ledger: Ledger) -> None:
        self._world = world
        self._hands = hands
        self._ears = world.adopt("fencelock-inbox")
        self._handle = handle
        self._ledger = ledger
        self._mutex = world.mutex()
        self._post = Post(handle.path)
        self._inbox: Inbox | None = None
        self._signals: dict[str, Signal] = {}
        self._places: dict[str, str] = {}
        """The name that each owner may have a place in the queue for."""
        self._strays: dict[str, None] = {}
        """Owners that were called and wait no more."""
        self._waited_for = world.signal()
        self._noise = world.signal()
        self._job: Job | None = None
        self._turn: object = None
        """Which of our jobs is to listen."""
        self._closing = False
        self._seen: object = None
        self._version: object = None
        """What the file last said of its changes, and what it said when we looked through it."""
        self._soonest = 0.0
        """When the first lock that is waited for would be free without a word."""

    @property
    def inbox(self) -> str:
        """The name of our inbox for queue rows; empty while nobody waits here."""
        return self._inbox.id if self._inbox is not None else ""

    def watch(self, owner: str, signal: Signal, push: bool) -> None:
        """Set the signal when this owner should look again."""
        with self._mutex:  # two threads that begin to wait at once share one inbox
            if self._inbox is None:
                self._inbox = Inbox(self._post, self._world.owner()[:16], push)
            if self._job is None:
                # A signal handler may raise when the thread runs and before we know of it: then
                # the next to come starts another, and this one ends.
                self._turn = turn = object()
                listening = self._listen(self._inbox, turn)
                self._job = self._world.spawn(listening, "fencelock-listener")
        self._signals[owner] = signal
        self._waited_for.set()

    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""
        self._signals.pop(owner, None)

    def expect(self, owner: str, name: str) -> None:
        """This owner is about to queue for a name."""
        self._places[owner] = name

    def forget(self, owner: str) -> None:
        """This owner has the lock, or has left the queue."""
        self._places.pop(owner, None)

    def look_through(self) -> None:
        """A waiter of ours has queued: what was seen before does not count."""
        self._version = None
        self._soonest = 0.0

    async def push(self, call: Call | None) -> None:
        """Tell a waiter that the lock is handed to it; a dead one is passed over at once."""
        while call is not None:
            if self._wake(call.owner):
                return
            if self._post.send(call.inbox, call.owner.encode()) is not Delivery.DEAD:
                return
            call = await self._hands(self._ledger.bury, call, self._world.now())

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._waited_for.set()
        self._noise.set()

    async def close(self) -> None:
        """End, and take the inbox away."""
        self.close_nowait()
        if self._inbox is not None:
            self._inbox.wake()
            if self._job is not None:
                await self._job.join(self._world.now() + CLOSE_S)
            self._inbox.close()
        self._post.close()
        await self._ears.close()

    async def _listen(self, inbox: Inbox, turn: object) -> None:
        direct = self._world.flavor == "asyncio" and not inbox.silent
        if direct:
            inbox.attach(self._wake_all)
        try:
            await self._attend(inbox, turn, self._doze if direct else self._hear_apart)
        finally:
            if direct:
                inbox.detach()

    async def _attend(
        self, inbox: Inbox, turn: object, hear: Callable[[Inbox, float], Awaitable[None]]
    ) -> None:
        alive_at = 0.0
        while not self._closing and self._turn is turn:
            if not self._has_waiters():
                self._waited_for.clear()
                if not self._has_waiters() and not self._closing:  # asked again: it may be set
                    await self._world.wait(self._waited_for, None)
                continue
            try:
                now = self._world.now()
                if now >= alive_at:
                    alive_at = now + ALIVE_S
                    await self._say_alive(inbox, now)
                await hear(inbox, min(alive_at, self._soonest))
                await self._give_back()
                await self._look(inbox, self._world.now())
            except FencelockError:  # the waiters meet the same trouble in their own calls
                await sleep(self._world, SWEEP_S)

    def _has_waiters(self) -> bool:
        return bool(self._signals or self._places)

    def _listens(self) -> bool:
        """Whether to go on hearing: until something has to be done."""
        return not self._closing and not self._strays and self._has_waiters()

    async def _doze(self, inbox: Inbox, until: float) -> None:
        """Let the loop wake whom messages name, until the file changes or a moment comes."""
        while self._listens() and (now := self._world.now()) < until:
            await self._world.wait(self._noise, min(now + SWEEP_S, until))
            version = self._handle.glance(VERSION)  # in the loop: a hop costs more than the look
            if version is None:
                if await self._hands(self._changed):
                    break
            elif self._is_news(version):
                break

    async def _hear_apart(self, inbox: Inbox, until: float) -> None:
        await self._ears(self._hear, inbox, until)

    def _hear(self, inbox: Inbox, until: float) -> None:
        """Wake whom messages name, until another client changes the file or a moment comes."""
        nap = POLL_MIN_S if inbox.silent else SWEEP_S
        ask_at = 0.0
        while self._listens() and (now := self._world.now()) < until:
            messages = inbox.receive(min(nap, until - now))
            self._wake_all(messages)
            if messages and now < ask_at:
                continue  # many messages must not keep us from asking, but few may
            ask_at = now + SWEEP_S
            if self._changed():
                break
            if inbox.silent:
                nap = min(nap * 1.5, POLL_MAX_S)

    def _changed(self) -> bool:
        """Whether another client has changed the file since we last looked through it."""
        return self._is_news(self._handle.look(self._world.now(), VERSION, ()))

    def _is_news(self, version: object) -> bool:
        self._seen = version
        return version != self._version

    async def _look(self, inbox: Inbox, now: float) -> None:
        """Look for waiters of ours that were handed a lock, passed over, or left by the dead."""
        self._version = self._seen
        rows, soonest = await self._hands(self._ledger.stirred, inbox.id, now)
        self._soonest = min(soonest, now + ALIVE_S)
        for name, owner, wakes in rows:
            if wakes:
                self._called(owner)
            else:
                await self.push(await self._hands(self._ledger.settle, name, now))
                self._version = None

    async def _say_alive(self, inbox: Inbox, now: float) -> None:
        """Refresh our places in the queues; whoever has lost one must look again."""
        self._strays |= dict.fromkeys(o for o in list(self._places) if o not in self._signals)
        await self._give_back()
        alive = await self._hands(self._ledger.refresh, inbox.id, now)
        if alive < len(self._signals):
            inbox.heal()
            for owner in list(self._signals):
                self._wake(owner)

    async def _give_back(self) -> None:
        """Take those out of the queue who wait no more: their withdrawal has failed, or is late.

        An owner queues while it is watched only, and is forgotten once it is granted the lock.
        """
        for owner in list(self._strays):
            name = self._places.get(owner)
            if name is not None and owner not in self._signals:
                _, call = await self._hands(self._ledger.leave, name, owner, self._world.now())
                self.forget(owner)
                await self.push(call)
            self._strays.pop(owner, None)
        self._noise.clear()

    def _wake_all(self, owners: Sequence[str]) -> None:
        for owner in owners:
            self._called(owner)

    def _called(self, owner: str) -> None:
        """Wake the owner that a lock was handed to; have it given back if the owner is away."""
        if not self._wake(owner) and owner in self._places:
            self._strays[owner] = None
            self._noise.set()

    def _wake(self, owner: str) -> bool:
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()
        return signal is not None
