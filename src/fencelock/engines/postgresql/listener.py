"""Hears notifications for the waiters of one client, and tends to what no notification tells.

One listener serves all waiters of a client, whatever their number, on one connection of its own,
and only while there are any. Every few seconds it says that they are alive; at the moment when the
first of the leases they wait for would end, it has expired ones handed on. So waiters ask nothing
by themselves. It waits for its socket in a thread of its own in both flavors; but since most turns
are short, a blocking caller hears by itself for a moment, and the thread begins only then.
"""

from __future__ import annotations

import threading

import psycopg

from ...errors import FencelockError
from ...world import Job, Signal, World
from .alarm import Alarm
from .link_threads import ThreadLink, asked, connect
from .settings import Settings
from .statements import LeaseStatements, Statement

ALIVE_S = 10.0  # how often the waiters are said to be alive
TEND_MIN_S = 0.05  # two looks at leases that end are at least so far apart
CLAIMED_S = 0.6  # by then whoever was called has claimed the lock, or is passed over
AGAIN_S = 0.5  # after trouble
MOMENT_S = 0.02  # so long a blocking caller hears by itself
CLOSE_S = 2.0


class Listener:
    """The ears of one client."""

    def __init__(self, world: World, settings: Settings, say: LeaseStatements) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self.inbox = ""
        """The channel on which this client hears: a new one with each connection."""
        self._ears = world.adopt("fencelock-ears")
        self._signals: dict[str, Signal] = {}
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
        self._signals[owner] = signal
        if not self._ready.is_set() or self._world.flavor != "threads":
            self._waited_for.set()
        with self._mutex:
            if self._job is None:
                self._alarm.open()
                self._job = self._world.spawn(self._listen(), "fencelock-listener")
        await self._world.wait(self._ready, self._world.now() + self._settings.patience)

    def linger(self, owner: str) -> None:
        """Hear in this thread for a moment, unless another does; after that the listener does."""
        signal = self._signals.get(owner)
        if signal is not None and not self._on_duty and self._hearing.acquire(blocking=False):
            try:
                give_up = self._world.now() + MOMENT_S
                while self._link is not None and not signal.is_set():
                    if (left := give_up - self._world.now()) <= 0:
                        break
                    self._hear(self._link, left)
            except (psycopg.Error, OSError):
                pass  # the listener meets the same trouble, and sees to it
            finally:
                self._hearing.release()
        if signal is not None and not signal.is_set():
            self._waited_for.set()

    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""
        self._signals.pop(owner, None)
        if not self._signals and self._on_duty:
            self._rouse()  # let it rest: the next to come may hear by itself

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
                if self._signals and self._waited_for.is_set():
                    self._on_duty = True
                    with self._hearing:
                        self._attend()
                else:
                    self._on_duty = False
                    self._waited_for.clear()
                    if self._signals:  # somebody came just now, and may have called before
                        self._waited_for.set()
                    self._waited_for.wait()
            except (FencelockError, psycopg.Error, OSError):
                self._stumble()
        if self._link is not None:
            self._link.drop()
        self._alarm.close()

    def _attend(self) -> None:
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
        until = min(self._tend_at, self._alive_at)
        self._hear(self._link, until - self._world.now())

    def _hear(self, link: ThreadLink, seconds: float) -> None:
        for owner in link.hear(seconds, self._alarm):
            self._wake(owner)
            self._tend_at = min(self._tend_at, self._world.now() + CLAIMED_S)

    def _connect(self) -> None:
        link = connect(self._settings, self._settings.listen)
        inbox = f"{self._settings.table}_{self._world.owner()[:16]}"
        asked(link, Statement("", f'LISTEN "{inbox}"'), (), self._settings.patience)
        asked(link, self._say.listen, (inbox,), self._settings.patience)
        self._link, self.inbox = link, inbox
        self._alive_at = self._tend_at = self._world.now() + ALIVE_S
        self._ready.set()
        for owner in list(self._signals):  # what was told while we were deaf
            self._wake(owner)

    def _tend(self, link: ThreadLink, now: float) -> None:
        """Have expired leases handed on; wake whom that concerns."""
        rows = asked(link, self._say.settle, (self.inbox,), self._settings.patience)
        soon = [float(after) for _, _, after in rows if after is not None]
        self._tend_at = now + min([ALIVE_S, *(max(after, TEND_MIN_S) for after in soon)])
        waiting = int(rows[0][1] or 0) if rows else 0
        if waiting < len(self._signals):  # somebody was taken for dead, or is about to queue
            for owner in list(self._signals):
                self._wake(owner)
        for called, _, _ in rows:
            if called is not None:
                self._wake(called.decode())

    def _wake(self, owner: str) -> None:
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()

    def _stumble(self) -> None:
        """The waiters meet the same trouble in their own calls: let them look."""
        with self._hearing:
            if self._link is not None:
                self._link.drop()
                self._link = None
        self._ready.set()
        for owner in list(self._signals):
            self._wake(owner)
        threading.Event().wait(AGAIN_S)
