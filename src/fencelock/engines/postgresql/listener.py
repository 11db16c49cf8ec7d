"""Hears notifications for the waiters of one client, and tends to what no notification tells.

One listener serves all waiters of a client, whatever their number, on one connection of its own,
and only while there are any. Every few seconds it says that they are alive; at the moment when the
first of the leases they wait for would end, it has expired ones handed on. So waiters ask nothing
by themselves.

A blocking caller that waits alone hears by itself, for itself and for whoever comes after it: that
saves a thread and the way between the two. Else, and always in asyncio, a thread of ours does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import psycopg

from ...errors import FencelockError
from ...world import Job, Signal, World
from .alarm import Alarm
from .link import Rows
from .link_threads import ThreadLink, asked, connect
from .settings import Settings
from .statements import LeaseStatements, Statement

ALIVE_S = 10.0  # how often the waiters are said to be alive
TEND_MIN_S = 0.05  # two looks at leases that end are at least so far apart
CLAIMED_S = 0.6  # by then whoever was called has claimed the lock, or is passed over
AGAIN_S = 0.5  # after trouble
GLANCE_S = 0.5  # how long a blocking caller listens before it sees that it need not any more
CLOSE_S = 2.0
GRAIN_S = 0.001  # for what a wait loses when it is told
APART = 0.01  # of a wait: how far our clock and the server's may run apart, as over a lease
NEVER = float("inf")


class _Watch:
    """Somebody who waits."""

    __slots__ = ("handed", "joined_at", "signal")

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.joined_at: float | None = None
        """When it first asked for a place in the queue; never, if that attempt was taken back."""
        self.handed: tuple[int, float] | None = None
        """It was told that it holds: the fence, and the seconds that it waited."""


class Listener:
    """The ears of one client."""

    def __init__(self, world: World, settings: Settings, say: LeaseStatements) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self.inbox = ""
        """The channel on which this client hears: a new one with each connection."""
        self._ears = world.adopt("fencelock-ears")
        self._watches: dict[str, _Watch] = {}
        self._ready = world.signal()
        self._waited_for = threading.Event()
        self._mutex = world.mutex()
        self._hearing = threading.Lock()
        """Whoever reads from the connection has it."""
        self._on_duty = False
        self._job: Job | None = None
        self._link: ThreadLink | None = None
        self._closing = False
        self._alarm = Alarm()
        self._tend_at = 0.0
        self._alive_at = 0.0

    async def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again; return when we can hear."""
        self._watches[owner] = _Watch(signal)
        if not self._ready.is_set() or self._world.flavor != "threads":
            self._waited_for.set()
        with self._mutex:
            if self._job is None:
                self._alarm.open()
                self._job = self._world.spawn(self._listen(), "fencelock-listener")
        await self._world.wait(self._ready, self._world.now() + self._settings.patience)

    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""
        self._watches.pop(owner, None)
        if not self._watches and self._on_duty:
            self._rouse()  # let it rest: the next to come may hear by itself

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

    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal, and hear meanwhile if nobody else does."""
        if self._world.flavor == "threads" and not self._on_duty:
            self._hear_alone(signal, deadline)
        if not signal.is_set():
            self._waited_for.set()
            await self._world.wait(signal, deadline)

    def _hear_alone(self, signal: Signal, deadline: float) -> None:
        if not self._hearing.acquire(blocking=False):
            return
        try:
            while self._link is not None and not signal.is_set() and not self._closing:
                now = self._world.now()
                if now >= deadline:
                    break
                self._attend(min(deadline, now + GLANCE_S))
        except (FencelockError, psycopg.Error, OSError):
            pass  # the listener meets the same trouble, and sees to it
        finally:
            self._hearing.release()

    def ask(self, statement: Statement, values: Sequence[object]) -> Rows | None:
        """Ask over our connection, in a thread, if nobody reads from it; None if somebody does.

        Over another connection, another process of the server would have to wake up for each word.
        """
        if self._on_duty or not self._hearing.acquire(blocking=False):
            return None
        try:
            link = self._link
            if link is None or self._closing or link.stale():
                return None  # whoever hears next meets the trouble, and sees to it
            return asked(link, statement, values, self._settings.patience)
        finally:
            if self._link is not None and self._link.broken:
                self._link = None
                self._wake_all()
            self._hearing.release()

    def expect(self, remaining: float) -> None:
        """A waiter of ours waits for a lease that would end then."""
        end = self._world.now() + remaining
        if end < self._tend_at:
            self._tend_at = end
            if self._on_duty:
                self._rouse()

    def _rouse(self) -> None:
        self._alarm.ring()

    def abandon(self) -> None:
        """End without waiting."""
        self._closing = True
        self._waited_for.set()
        self._rouse()

    async def close(self) -> None:
        """End, and let go of the connection."""
        self.abandon()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)
        await self._ears.close()

    async def _listen(self) -> None:
        await self._ears(self._run)

    def _run(self) -> None:
        """Hear and tend for as long as the client lives."""
        while not self._closing:
            try:
                if self._watches and self._waited_for.is_set():
                    self._on_duty = True
                    with self._hearing:
                        self._attend(NEVER)
                else:
                    self._on_duty = False
                    self._waited_for.clear()
                    if self._watches:  # somebody came just now, and may have called before
                        self._waited_for.set()
                    self._waited_for.wait()
            except (FencelockError, psycopg.Error, OSError):
                self._stumble()
        with self._hearing:  # somebody may still be asking
            if self._link is not None:
                self._link.drop()
        self._alarm.close()

    def _attend(self, until: float) -> None:
        """Say and ask what is due, then hear until then, or until the next is."""
        if self._link is None:
            self._connect()
        assert self._link is not None
        now = self._world.now()
        if now >= self._alive_at:
            self._alive_at = now + ALIVE_S
            asked(self._link, self._say.alive, (self.inbox,), self._settings.patience)
            self._tend_at = min(self._tend_at, now)
        if now >= self._tend_at:
            self._tend(self._link, now)
        until = min(self._tend_at, self._alive_at, until)
        for word in self._link.hear(until - self._world.now(), self._alarm):
            self._understand(word)

    def _understand(self, word: str) -> None:
        """An owner, and what it was handed; without that it is called, or asked to stand by."""
        owner, *grant = word.split(" ")
        watch = self._watches.get(owner)
        if watch is not None:
            if grant:
                watch.handed = int(grant[0]), float(grant[1])
            watch.signal.set()
        if not grant:
            self._tend_at = min(self._tend_at, self._world.now() + CLAIMED_S)

    def _connect(self) -> None:
        link = connect(self._settings, self._settings.listen)
        inbox = f"{self._settings.table}_h{self._world.owner()[:16]}"  # h: it can be handed a lock
        asked(link, Statement("", f'LISTEN "{inbox}"'), (), self._settings.patience)
        asked(link, self._say.listen, (inbox,), self._settings.patience)
        self._link, self.inbox = link, inbox
        self._alive_at = self._tend_at = self._world.now() + ALIVE_S
        self._ready.set()
        self._wake_all()  # what was told while we were deaf

    def _tend(self, link: ThreadLink, now: float) -> None:
        """Have expired leases handed on; wake whom that concerns."""
        rows = asked(link, self._say.settle, (self.inbox,), self._settings.patience)
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

    def _stumble(self) -> None:
        """The waiters meet the same trouble in their own calls: let them look."""
        with self._hearing:
            if self._link is not None:
                self._link.drop()
                self._link = None
        self._ready.set()
        self._wake_all()
        threading.Event().wait(AGAIN_S)
