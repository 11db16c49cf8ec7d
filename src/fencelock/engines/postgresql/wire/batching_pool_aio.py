"""An asyncio pool that batches statements: those that are queued together share a transaction.

All statements that the tasks of a loop queue while a connection is busy are sent in one pipeline,
ordered by name, as one transaction: one round trip and one commit for many locks. The order keeps
two such batches from waiting for each other. If one statement of a batch fails, the server has
undone all of them, and each is sent again alone. A second connection is opened only when a batch is
held up.

A task that is cancelled leaves its statement under way. The next statement of the same owner waits
for that one to end, so a withdrawal always runs after the attempt that it undoes.
"""

from __future__ import annotations

import asyncio

from ....errors import Unavailable
from ..errors import RETRIED, refusal
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement
from .connection_aio import AioConnection, Call, connect

TRIES_MAX = 5
BATCH_MAX = 64
HELD_UP_S = 0.005  # a batch that takes longer may be waiting for a lock: open another connection


class BatchingPool:
    """A few connections, over which batches of statements are sent."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._idle: list[AioConnection] = []
        self._open = 0
        self._opening: set[asyncio.Task[None]] = set()
        self._pending: list[Call] = []
        self._flying: set[str] = set()
        self._alone: list[Call] = []
        """Calls of a batch that failed: each is sent again alone."""
        self._scheduled = False
        self._closed = False
        self._held_up: asyncio.TimerHandle | None = None

    def execute(
        self,
        statement: Statement,
        values: tuple[object, ...],
        owner: str,
        within: float | None = None,
    ) -> asyncio.Future[Rows]:
        """Queue a statement; return the future of its rows."""
        future: asyncio.Future[Rows] = self._loop.create_future()
        if self._closed:
            future.set_exception(Unavailable("the client is closed; nothing happened"))
            return future
        call = Call(statement, values, owner, future)
        call.request_timeout = min(
            self._settings.request_timeout, within or self._settings.request_timeout
        )
        self._pending.append(call)
        self._schedule()
        return future

    @property
    def is_idle(self) -> bool:
        """Whether a connection is idle at this moment."""
        return bool(self._idle) and not self._pending

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._scheduled = False
        self._pending = [call for call in self._pending if not call.future.done()]
        while self._idle and (batch := self._next_batch()):
            connection = self._idle.pop()
            self._flying.update(call.owner for call in batch if call.owner)
            connection.start(batch, min(call.request_timeout for call in batch))
        if not self._pending and not self._alone:
            return
        if self._open == 0:
            self._grow()
        elif self._open < self._size and self._held_up is None:
            self._held_up = self._loop.call_later(HELD_UP_S, self._look)

    def _look(self) -> None:
        self._held_up = None
        if (self._pending or self._alone) and not self._idle and self._open < self._size:
            self._grow()

    def _next_batch(self) -> list[Call]:
        if self._alone:
            return [self._alone.pop()]
        batch: list[Call] = []
        left: list[Call] = []
        owners: set[str] = set()
        for call in self._pending:
            waits = call.owner in self._flying or call.owner in owners
            apart = bool(batch) and call.statement.kind != batch[0].statement.kind
            if waits or apart or len(batch) >= BATCH_MAX:
                left.append(call)
            else:
                batch.append(call)
            if call.owner:
                owners.add(call.owner)
        self._pending = left
        batch.sort(key=lambda call: call.order)
        return batch

    def _grow(self) -> None:
        self._open += 1
        task = self._loop.create_task(self._connect(), name="fencelock-connect")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        try:
            connection = await connect(self._settings, self._done)
        except Exception as error:
            self._open -= 1
            if self._open == 0:
                pending, self._pending = self._pending, []
                for call in [*pending, *self._alone]:
                    call.fail(error)
                self._alone = []
            return
        if self._closed:
            connection.end(ConnectionError("closed"))
            return
        self._idle.append(connection)
        self._dispatch()

    async def reach(self) -> bool:
        """Open the first connection; return whether it leads to the server itself."""
        connection = await connect(self._settings, self._done)
        self._open += 1
        self._idle.append(connection)
        return connection.direct

    def _done(self, connection: AioConnection) -> None:
        batch, connection.batch = connection.batch, []
        answered = not connection.broken
        if connection.broken:
            self._open -= 1
            if connection in self._idle:
                self._idle.remove(connection)
            for idle in [*self._idle]:  # they most likely lead to the same dead server
                idle.end(ConnectionError("another connection was lost"))
        elif self._closed:
            connection.end(ConnectionError("closed"))
        else:
            self._idle.append(connection)
        self._flying.difference_update([call.owner for call in batch])
        if answered:
            self._deliver(batch)
        if self._pending or self._alone:
            self._dispatch()

    def _deliver(self, batch: list[Call]) -> None:
        refused = next((call.error for call in batch if call.error is not None), None)
        for call in batch:
            call.tries += 1
            if refused is None:
                if not call.future.done():
                    call.future.set_result(call.rows)
            elif len(batch) > 1 or (refused.state in RETRIED and call.tries < TRIES_MAX):
                self._alone.append(call)
            else:
                call.fail(refusal(refused))

    async def close(self) -> None:
        self._closed = True
        if self._held_up is not None:
            self._held_up.cancel()
        for task in [*self._opening]:
            task.cancel()
        for call in [*self._pending, *self._alone]:
            call.fail(Unavailable("the client is closed; nothing happened"))
        self._pending, self._alone = [], []
        for connection in [*self._idle]:
            connection.end(ConnectionError("closed"))
