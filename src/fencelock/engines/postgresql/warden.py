"""Sees to the end of leases that live in a session: those that nobody renewed are given back.

A row in a table is over when its time is, whoever looks. A session's lock is held until somebody
unlocks it, so a client gives back by itself what was not renewed in time; for a client that cannot,
the server ends the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import FencelockError
from ...model import Request
from ...world import Job, World
from .modes import Session, Transaction

NEVER = float("inf")
NAP_MAX_S = 60.0
LATE_S = 0.05  # the holder's own clock tells it first
CLOSE_S = 2.0


class Hold:
    """One lock of ours, and the session that has it."""

    __slots__ = (
        "fence",
        "key",
        "leaver",
        "meta",
        "name",
        "noted",
        "session",
        "taken_at",
        "ttl",
        "until",
    )

    def __init__(
        self,
        name: str,
        key: int,
        session: Session,
        fence: int,
        ttl: float,
        until: float,
        meta: str,
    ) -> None:
        self.name = name
        self.key = key
        self.session = session
        self.fence = fence
        self.ttl = ttl
        self.until = until
        self.taken_at = until - ttl
        self.meta = meta
        self.noted = False
        self.leaver: object = None
        """Of the call that is giving it back."""

    @classmethod
    def of(cls, request: Request, key: int, session: Session, fence: int, asked_at: float) -> Hold:
        """What a request was granted."""
        until = asked_at + request.ttl
        return cls(request.name, key, session, fence, request.ttl, until, request.meta)


class BoundHold(Hold):
    """A lock and its transaction."""

    __slots__ = ("failed", "transaction", "used", "xid")

    def __init__(
        self, request: Request, transaction: Transaction, fence: int, asked_at: float, xid: str
    ) -> None:
        until = asked_at + request.ttl
        super().__init__(request.name, 0, transaction, fence, request.ttl, until, request.meta)
        self.transaction = transaction
        self.xid = xid
        self.failed = False
        self.used = False

    def is_over(self, now: float) -> bool:
        """Whether its time is over, or its transaction."""
        return self.until <= now or not self.transaction.open


class Warden:
    """Watches the holds of one client, in the background, once there are any."""

    def __init__(
        self,
        world: World,
        holds: dict[str, Hold],
        give_back: Callable[[str, Hold], Awaitable[object]],
        chores: Callable[[float], Awaitable[float]] | None = None,
    ) -> None:
        self._world = world
        self._holds = holds
        self._give_back = give_back
        self._chores = chores
        """What else is to be done now and then; says when it wants to be called again."""
        self._wake = world.signal()
        self._mutex = world.mutex()
        self._job: Job | None = None
        self._next = 0.0
        self._closing = False

    def expect(self, until: float) -> None:
        """A hold would end then, or a chore is due."""
        if self._job is None:
            with self._mutex:
                if self._job is None:
                    self._job = self._world.spawn(self._run(), "fencelock-warden")
        if until < self._next:
            self._wake.set()

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            now = self._world.now()
            for owner, hold in list(self._holds.items()):
                if hold.until + LATE_S <= now:
                    await self._end(owner, hold)
            self._next = NEVER  # whoever comes in between wakes us to be safe
            again = await self._chores(now) if self._chores is not None else NEVER
            ends = [hold.until + LATE_S for hold in list(self._holds.values())]
            self._next = min([*ends, again, now + NAP_MAX_S])
            await self._world.wait(self._wake, self._next)

    async def _end(self, owner: str, hold: Hold) -> None:
        try:
            await self._give_back(owner, hold)
        except FencelockError:
            hold.session.drop()  # it cannot be unlocked, so let the server do it
