"""Wait in the server's own lock queue: a statement that blocks, on a session of its own.

The server reports how long it made a waiter wait. A grant counts from the end of that wait, not
from the arrival of the reply: a duration crosses the wire, no time of day.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from ...engine import Engine
from ...errors import FencelockError, Unavailable
from ...model import Busy, Gone, Grant, Request, granted
from ...world import Signal, World
from .hold import Hold

LOOK_S = 60.0  # the server itself wakes a waiter
MOMENT_S = 0.02  # how long a blocking caller waits by itself before a poller does so for it
CANCEL_S = 0.5  # how long a caller that gave up is kept; then its session must end
AGAIN_S = 0.05  # the server forgets a cancellation that comes before the statement: send another


class Session(Protocol):
    """A connection on which a lock is waited for."""

    dead: bool

    async def wait_briefly(self, seconds: float) -> None: ...

    def drop(self) -> None: ...


S = TypeVar("S", bound=Session)
A = TypeVar("A")


class Waiter(Generic[S, A]):
    """A request in the server's queue, and the session on which it waits."""

    def __init__(self, request: Request, key: int, session: S, sent_at: float) -> None:
        self.request = request
        self.key = key
        self.session = session
        self.sent_at = sent_at
        self.answer: A | Exception | None = None

    def granted_at(self, waited: float, now: float) -> float:
        """Return when the lock was granted, at the earliest."""
        return min(self.sent_at + waited, now)


class ServerQueue(Generic[S, A]):
    """The waiters of one client."""

    def __init__(self, world: World, cancel: Callable[[S, float], Awaitable[object]]) -> None:
        self._world = world
        self._cancel = cancel
        """Have the server cancel a session's waiting statement, within the given seconds."""
        self._signals: dict[str, Signal] = {}
        self.waiters: dict[str, Waiter[S, A]] = {}

    def watch(self, owner: str, signal: Signal) -> None:
        self._signals[owner] = signal
        waiter = self.waiters.get(owner)
        if waiter is not None and waiter.answer is not None:  # the reply came before the watch
            signal.set()

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    async def join(
        self,
        waiter: Waiter[S, A],
        send: Callable[[Callable[[A | Exception], None]], None],
        on_granted: Callable[[Waiter[S, A], A], None] | None = None,
    ) -> None:
        """Send the statement that waits; ``on_granted`` is called before callers see the reply."""
        owner = waiter.request.owner
        self.waiters[owner] = waiter

        def done(answer: A | Exception) -> None:
            if on_granted is not None and not isinstance(answer, Exception):
                on_granted(waiter, answer)
            waiter.answer = answer
            if (signal := self._signals.get(owner)) is not None:
                signal.set()

        send(done)
        await waiter.session.wait_briefly(MOMENT_S)  # most waits are short

    async def cancel(self, waiter: Waiter[S, A]) -> bool:
        """Take a waiter out of the server's queue; return whether its session is still alive."""
        owner = waiter.request.owner
        answered = self._signals.setdefault(owner, self._world.signal())
        try:
            deadline = self._world.now() + CANCEL_S
            while waiter.answer is None and self._world.now() < deadline:
                answered.clear()
                await self._cancel(waiter.session, CANCEL_S)
                if waiter.answer is None:
                    await self._world.wait(answered, self._world.now() + AGAIN_S)
        except FencelockError:
            pass  # the statement cannot be cancelled, so its session must end
        self._signals.pop(owner, None)
        if waiter.answer is None:
            waiter.session.drop()  # the server finds out when it would grant the lock
        return not waiter.session.dead


class ServerQueueEngine(Engine, ABC, Generic[S, A]):
    """An engine whose waiters wait in the server's queue.

    That queue wakes a waiter; a repeated ``acquire`` serves those whose reply was lost.
    """

    session_bound = True
    _queue: ServerQueue[S, A]

    @abstractmethod
    async def _holder(self, name: str) -> tuple[str, int, str] | None:
        """Return who holds a name, as far as it is known: owner, fence and meta."""

    async def _again(self, request: Request, hold: Hold[Any]) -> Grant:
        """Grant an owner the hold that it already has, with the ttl of its new request."""
        grant = granted(request.name, request.owner, hold.fence, request.ttl, self.world.now())
        answer = (await self.renew([grant]))[0]
        if isinstance(answer, Gone):
            raise Unavailable(f"{request.name!r} was lost meanwhile ({answer.reason}): try again")
        return answer

    async def _busy(self, request: Request) -> Busy | Grant:
        """Return ``Busy``, with the holder unless the caller is about to join the queue."""
        if request.waits:
            return Busy(LOOK_S)
        now = self.world.now()
        holder = await self._holder(request.name)
        if holder is None:
            return Busy(LOOK_S)
        owner, fence, meta = holder
        if owner == request.owner:  # granted to this owner, by another client
            return granted(request.name, request.owner, fence, request.ttl, now)
        return Busy(LOOK_S, holder=meta)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._queue.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._queue.unwatch(request.owner)
