"""Hears notifications on the event loop itself: no thread, and no task for a message.

The loop reads what comes over the connection and sets the signals of those it concerns. A task
runs only to connect, and while what is due is asked; until then a timer waits, which no careless
``cancel`` of all tasks can end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg

from ...errors import FencelockError
from ...world import Job, Signal, World
from .errors import lost
from .listener import AGAIN_S, ALIVE_S, CLOSE_S, Ears, Watch
from .settings import Settings
from .statements import LeaseStatements, Statement
from .wire.batching_pool_aio import Lane
from .wire.connection import Rows
from .wire.connection_aio import AioLink, Call, connect


class AioListener(Ears):
    """The ears of one client."""

    def __init__(self, world: World, settings: Settings, say: LeaseStatements, lane: Lane) -> None:
        super().__init__(world, settings, say)
        self._loop = asyncio.get_running_loop()
        self._lane = lane
        self._link: AioLink | None = None
        self._due: Call | None = None
        """What is to be asked next over the connection."""
        self._timer: asyncio.TimerHandle | None = None
        self._job: Job | None = None
        self._again_at = 0.0

    async def watch(self, owner: str, signal: Signal) -> None:
        self._watches[owner] = Watch(signal)
        if self._timer is None:
            self._plan()
        if not self._ready.is_set():
            await self._world.wait(self._ready, self._world.now() + self._settings.request_timeout)

    def unwatch(self, owner: str) -> None:
        self._watches.pop(owner, None)  # if it was the last, the timer is not set again

    async def wait(self, signal: Signal, deadline: float) -> None:
        await self._world.wait(signal, deadline)

    async def ask(self, statement: Statement, values: Sequence[object], owner: str) -> Rows | None:
        if self._link is None or self._link.batch or self._settings.listen is not None:
            return None
        future = self._lane.ask_over(self._link, statement, values, owner)
        return None if future is None else await future

    def expect(self, remaining: float) -> None:
        end = self._world.now() + remaining
        if end < self._tend_at:
            self._tend_at = end
            self._plan()

    def _stand_by(self) -> None:
        super()._stand_by()
        self._plan()

    def close_nowait(self) -> None:
        self._closing = True
        try:
            self._loop.call_soon_threadsafe(self._end)  # whoever lets go of a client may be anybody
        except RuntimeError:
            pass  # the loop is closed

    async def close(self) -> None:
        self._closing = True
        self._end()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.end(ConnectionError("closed"))

    def _plan(self) -> None:
        """See to what is due when it is; to a connection at once, if there is none."""
        if self._job is not None or self._closing:
            return  # whoever is at it plans what comes next
        if self._timer is not None:
            self._timer.cancel()
        due = self._again_at if self._link is None else min(self._tend_at, self._alive_at)
        self._timer = self._loop.call_later(max(0.0, due - self._world.now()), self._start)

    def _start(self) -> None:
        self._timer = None
        if self._watches and not self._closing:
            self._job = self._world.spawn(self._attend(), "fencelock-listener")

    async def _attend(self) -> None:
        """Say and ask what is due."""
        try:
            link = self._link or await self._connect()
            now = self._world.now()
            if now >= self._alive_at:
                self._alive_at = now + ALIVE_S
                await self._say_over(link, self._say.alive, self.inbox)
                self._tend_at = min(self._tend_at, now)
            if now >= self._tend_at:
                self._tended(await self._say_over(link, self._say.settle, self.inbox), now)
        except (FencelockError, psycopg.Error, OSError):
            self._stumble()
        finally:
            self._job = None
            self._plan()

    async def _connect(self) -> AioLink:
        link = await connect(self._settings, self._done, self._settings.listen)
        link.heard = self._understand
        inbox = self._channel()
        try:
            await self._say_over(link, Statement("", f'LISTEN "{inbox}"'))
            await self._say_over(link, self._say.listen, inbox)
        except BaseException:
            link.end(ConnectionError("it cannot be listened to"))
            raise
        if self._closing:
            link.end(ConnectionError("closed"))
        self._link = link
        self._hears(inbox)
        return link

    async def _say_over(self, link: AioLink, statement: Statement, *values: object) -> Rows:
        """Ask over the connection that hears, as soon as it has nothing else to do."""
        call = Call(statement, values, "", self._loop.create_future())
        if link.batch:
            self._due = call
        else:
            link.start([call], self._settings.request_timeout)
        return await call.future

    def _done(self, link: AioLink) -> None:
        """The connection has no more to do, or is no more."""
        batch, link.batch = link.batch, []
        answered = not link.broken
        due, self._due = self._due, None
        if due is not None and answered:
            link.start([due], self._settings.request_timeout)
        elif due is not None:
            due.fail(lost("the connection has ended"))
        self._lane.land(batch, answered)
        if link.broken and link is self._link:
            self._link = None
            self._wake_all()
            self._plan()

    def _stumble(self) -> None:
        """The waiters meet the same trouble in their own calls: let them look."""
        self._again_at = self._world.now() + AGAIN_S
        if self._link is not None:
            self._link.end(ConnectionError("there was trouble"))
        self._ready.set()
        self._wake_all()
