"""Hears notifications in a program of threads.

A blocking caller that waits alone hears by itself, for itself and for whoever comes after it: that
saves a thread and the way between the two. Else a thread of ours does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import psycopg

from ...errors import FencelockError
from ...wires.wakeup_pipe import Alarm
from ...world import Job, Signal, World
from .listener import AGAIN_S, ALIVE_S, CLOSE_S, NEVER, Ears, Watch
from .settings import Settings
from .statements import LeaseStatements, Statement
from .wire.connection import Rows
from .wire.connection_threads import ThreadLink, asked, connect, time_left

GLANCE_S = 0.5  # how long a blocking caller listens before it sees that it need not any more


class ThreadListener(Ears):
    """The ears of one client."""

    def __init__(self, world: World, settings: Settings, say: LeaseStatements) -> None:
        super().__init__(world, settings, say)
        self._waited_for = threading.Event()
        self._mutex = world.mutex()
        self._hearing = threading.Lock()
        """Whoever reads from the connection has it."""
        self._on_duty = False
        self._job: Job | None = None
        self._link: ThreadLink | None = None
        self._alarm = Alarm()

    async def watch(self, owner: str, signal: Signal) -> None:
        self._watches[owner] = Watch(signal)
        if self._job is not None and self._ready.is_set():
            return
        self._waited_for.set()
        with self._mutex:
            if self._job is None:
                self._alarm.open()
                self._job = self._world.spawn(self._run(), "fencelock-listener")
        await self._world.wait(self._ready, self._world.now() + self._settings.request_timeout)

    def unwatch(self, owner: str) -> None:
        self._watches.pop(owner, None)
        if not self._watches and self._on_duty:
            self._alarm.ring()  # let it rest: the next to come may hear by itself

    async def wait(self, signal: Signal, deadline: float) -> None:
        if self._on_duty or not self._hear_alone(signal, deadline):
            self._waited_for.set()
            await self._world.wait(signal, deadline)

    def _hear_alone(self, signal: Signal, deadline: float) -> bool:
        """Hear in the calling thread; say whether its wait is over."""
        if not self._hearing.acquire(blocking=False):
            return False
        try:
            while not signal.is_set():
                now = self._world.now()
                if now >= deadline:
                    return True
                if self._link is None or self._closing:
                    return False
                self._attend(now, min(deadline, now + GLANCE_S))
            return True
        except (FencelockError, psycopg.Error, OSError):
            return False  # the listener meets the same trouble, and sees to it
        finally:
            self._hearing.release()

    async def ask(self, statement: Statement, values: Sequence[object], owner: str) -> Rows | None:
        if self._on_duty or self._settings.listen is not None:
            return None
        if not self._hearing.acquire(blocking=False):
            return None
        try:
            link = self._link
            if link is None or self._closing:
                return None
            if time.monotonic() >= link.fresh_until and link.stale():
                return None  # whoever hears next meets the trouble, and sees to it
            return asked(
                link, statement, values, time_left(self._world, self._settings.request_timeout)
            )
        finally:
            if self._link is not None and self._link.broken:
                self._link = None
                self._wake_all()
            self._hearing.release()

    def expect(self, remaining: float) -> None:
        end = self._world.now() + remaining
        if end < self._tend_at:
            self._tend_at = end
            if self._on_duty:
                self._alarm.ring()

    def close_nowait(self) -> None:
        self._closing = True
        self._waited_for.set()
        self._alarm.ring()

    async def close(self) -> None:
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    async def _run(self) -> None:
        """Hear and tend for as long as the client lives."""
        while not self._closing:
            try:
                if self._watches and self._waited_for.is_set():
                    self._on_duty = True
                    with self._hearing:
                        self._attend(self._world.now(), NEVER)
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

    def _attend(self, now: float, until: float) -> None:
        """Say and ask what is due, then hear until then, or until the next is."""
        link = self._link or self._connect()
        if now >= self._alive_at or now >= self._tend_at:
            self._see_to(link, now)
            now = self._world.now()
        until = min(self._tend_at, self._alive_at, until)
        for word in link.hear(until - now, self._alarm):
            self._understand(word)

    def _see_to(self, link: ThreadLink, now: float) -> None:
        if now >= self._alive_at:
            self._alive_at = now + ALIVE_S
            asked(link, self._say.alive, (self.inbox,), self._settings.request_timeout)
            self._tend_at = min(self._tend_at, now)
        if now >= self._tend_at:
            rows = asked(link, self._say.settle, (self.inbox,), self._settings.request_timeout)
            self._tended(rows, now)

    def _connect(self) -> ThreadLink:
        link = connect(self._world, self._settings, self._settings.listen)
        inbox = self._channel()
        asked(link, Statement("", f'LISTEN "{inbox}"'), (), self._settings.request_timeout)
        asked(link, self._say.listen, (inbox,), self._settings.request_timeout)
        self._link = link
        self._hears(inbox)
        return link

    def _stumble(self) -> None:
        """The waiters meet the same trouble in their own calls: let them look."""
        with self._hearing:
            if self._link is not None:
                self._link.drop()
                self._link = None
        self._ready.set()
        self._wake_all()
        threading.Event().wait(AGAIN_S)
