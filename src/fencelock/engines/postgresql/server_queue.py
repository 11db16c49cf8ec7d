"""Waiting in the server's own queue: a statement that blocks, on a session that does nothing else.

The server says how long it made a waiter wait. What it granted counts from then, not from when we
heard of it: a duration crosses the wire, no time of day.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import FencelockError
from ...model import Request
from ...world import Signal, World
from .modes import Session, Wire
from .statements import Statement
from .wire.connection import Rows

MOMENT_S = 0.02  # so long a blocking caller waits by itself before others do it for it
CANCEL_S = 0.5  # within what a caller that gave up is kept; then its session must end
AGAIN_S = 0.05  # the server does not remember a cancellation that comes before the statement

CANCEL = Statement("fl_cancel", "SELECT pg_cancel_backend($1::int)")


class Waiter:
    """Somebody in the server's queue."""

    def __init__(self, request: Request, key: int, session: Session, sent_at: float) -> None:
        self.request = request
        self.key = key
        self.session = session
        self.sent_at = sent_at
        self.answer: Rows | Exception | None = None

    def let_in_at(self, waited: bytes | None, now: float) -> float:
        """When it was let in, at the earliest."""
        return min(self.sent_at + float(waited or 0), now)


class Queue:
    """The waiters of one client."""

    def __init__(self, world: World, wire: Wire) -> None:
        self._world = world
        self._wire = wire
        self._signals: dict[str, Signal] = {}
        self.waiters: dict[str, Waiter] = {}

    def watch(self, owner: str, signal: Signal) -> None:
        self._signals[owner] = signal
        waiter = self.waiters.get(owner)
        if waiter is not None and waiter.answer is not None:  # it came before anybody listened
            signal.set()

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    async def stand(
        self,
        waiter: Waiter,
        statement: Statement,
        values: tuple[object, ...],
        let_in: Callable[[Waiter, Rows], None] = lambda waiter, rows: None,
    ) -> None:
        """Send the statement that waits; ``let_in`` is called before anybody sees the answer."""
        owner = waiter.request.owner
        self.waiters[owner] = waiter

        def heard(answer: Rows | Exception) -> None:
            if isinstance(answer, list):
                let_in(waiter, answer)
            waiter.answer = answer
            if (signal := self._signals.get(owner)) is not None:
                signal.set()

        waiter.session.post(statement, values, heard)
        await waiter.session.linger(MOMENT_S)  # most turns are short

    async def call_off(self, waiter: Waiter) -> bool:
        """Take a waiter out of the server's queue; say whether its session is still of use."""
        owner = waiter.request.owner
        told = self._signals.setdefault(owner, self._world.signal())
        try:
            deadline = self._world.now() + CANCEL_S
            while waiter.answer is None and self._world.now() < deadline:
                told.clear()
                await self._wire.keep(CANCEL, waiter.session.pid, within=CANCEL_S)
                if waiter.answer is None:
                    await self._world.wait(told, self._world.now() + AGAIN_S)
        except FencelockError:
            pass  # it cannot be called off, so its session must end
        self._signals.pop(owner, None)
        if waiter.answer is None:
            waiter.session.drop()  # the server finds out when it would let the waiter in
        return not waiter.session.dead
