"""A session under asyncio: one connection for its whole life, whose end is the end of its locks.

Calls that come up together are written together, each a transaction of its own: a session's locks
are not given back when a transaction fails, so none may fail because of another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from ....errors import OutcomeUnknown, Unavailable
from ..errors import refusal
from ..settings import Settings
from ..statements import Statement
from .connection import Rows
from .connection_aio import AioLink, Call

POSTED = "posted"


class AioSession:
    """One session, for many tasks."""

    def __init__(self, settings: Settings) -> None:
        self._request_timeout = settings.request_timeout
        self._loop = asyncio.get_running_loop()
        self._pending: list[Call] = []
        self._link: AioLink | None = None
        self._posted: Callable[[Rows | Exception], None] | None = None
        self.pid = 0
        self.holds: set[str] = set()
        self.ttls: Counter[float] = Counter()
        self.limit = "0"
        self.telling = 0
        self.dead = False
        self._ended: Callable[[], None] | None = None

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, when the session has ended: the loop watches the connection."""
        self._ended = ended

    def begin(self, link: AioLink) -> None:
        """Use this connection, and no other ever."""
        self._link = link

    async def ask(self, statement: Statement, *values: object) -> Rows:
        """Run one statement in a transaction of its own."""
        if self.dead:
            raise Unavailable("the session has ended; nothing happened")
        future: asyncio.Future[Rows] = self._loop.create_future()
        self._pending.append(Call(statement, values, "", future))
        if len(self._pending) == 1:
            self._loop.call_soon(self._go)
        return await future

    def post(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement that may take for ever; ``done`` hears what becomes of it."""
        future: asyncio.Future[Rows] = self._loop.create_future()
        future.add_done_callback(lambda future: done(_outcome(future)))
        if self.dead:
            future.set_exception(Unavailable("the session has ended; nothing happened"))
            return
        self._pending.append(Call(statement, values, POSTED, future))
        self._go()

    def _go(self) -> None:
        link = self._link
        if link is not None and not link.batch and not link.broken and self._pending:
            batch, self._pending = self._pending, []
            for_ever = any(call.owner == POSTED for call in batch)
            link.start(batch, None if for_ever else self._request_timeout, together=False)

    def done(self, link: AioLink) -> None:
        """The link has no more to do, or is no more."""
        batch, link.batch = link.batch, []
        if link.broken:
            self.dead = True
            for call in self._pending:
                call.fail(OutcomeUnknown("the session has ended"))
            self._pending = []
            ended, self._ended = self._ended, None
            if ended is not None:
                ended()
            return
        for call in batch:
            if call.error is not None:
                call.fail(refusal(call.error))
            elif not call.future.done():
                call.future.set_result(call.rows)
        self._go()

    async def linger(self, seconds: float) -> None:
        """The loop hears the answer in any case."""

    def drop(self) -> None:
        """End it: the server gives its locks back."""
        self.dead = True
        if self._link is not None:
            self._link.end(ConnectionError("the session was ended"))


def _outcome(future: asyncio.Future[Rows]) -> Rows | Exception:
    error = future.exception()
    return error if isinstance(error, Exception) else future.result()
