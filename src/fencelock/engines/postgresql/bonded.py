"""What the modes have in common whose locks live and die with a session, or its transaction.

Waiting is the server's own affair there: its queue wakes a waiter, and asking again is for those
whom an answer did not reach.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Busy, Gone, Grant, Request, Traits, granted
from ...world import Signal, World
from .modes import Mode, Wire
from .server_queue import Queue
from .settings import Settings
from .statements import Statement
from .warden import Hold

LOOK_S = 60.0  # the server itself wakes a waiter


class BondedMode(Mode):
    """A protocol whose locks are the server's, not rows of ours."""

    traits = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=False,
        push=True,
        durable=False,
        revoke=False,
        advice="use mode=lease",
    )

    def __init__(self, world: World, wire: Wire, settings: Settings, whose: Statement) -> None:
        super().__init__(world, wire, settings)
        self._whose = whose
        self._queue = Queue(world, wire)
        self._closing = False

    @abstractmethod
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]: ...

    async def _again(self, request: Request, hold: Hold) -> Grant:
        """The same owner asks once more: it has the same hold, for another ttl."""
        grant = granted(request.name, request.owner, hold.fence, request.ttl, self.world.now())
        answer = (await self.renew([grant]))[0]
        if isinstance(answer, Gone):
            raise Unavailable(f"{request.name!r} was lost meanwhile ({answer.reason}): try again")
        return answer

    async def _busy(self, request: Request) -> Busy | Grant:
        """Somebody else has it: say who, unless the caller is about to stand in line."""
        if request.waits:
            return Busy(LOOK_S)
        now = self.world.now()
        rows = await self.wire.ask(self._whose, request.name)
        if not rows:
            return Busy(LOOK_S)
        owner, fence, meta = rows[0]
        if (owner or b"").decode() == request.owner:  # granted to this owner, by another client
            return granted(request.name, request.owner, int(fence or 0), request.ttl, now)
        return Busy(LOOK_S, holder=(meta or b"").decode())

    async def watch(self, request: Request, signal: Signal) -> None:
        self._queue.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._queue.unwatch(request.owner)
