"""``mode=advisory``: a session's advisory lock, which any other user of the same key respects.

The lock lives and dies with its session. Many locks of a client share a few sessions; whoever has
to wait does so on a session of its own, in the server's own queue. The server would grant a lock
twice to one session, so a key that this client has taken is not asked for again on a shared one.

* **The end of a lease.** A session that says nothing for as long as its shortest ttl, and a second,
  is ended by the server (``idle_session_timeout``): that frees what a frozen or unreachable holder
  held. Renewal is a word on that very session. A lease that nobody renews is given back by the
  warden of its own client, since others on the session may go on.
* **Loss.** A session that does not answer, or was ended by anybody, is never replaced: all its
  leases are gone. Their holders are told at the moment when the kernel knows that the other side
  has closed the connection; of a session that has silently gone, at their next renewal.
* **Fence**: a sequence, drawn in the statement that locks: the same for all clients of a database,
  since they exclude each other whatever their options are. Each new session first raises it to the
  server's clock in microseconds, so that it does not go back when a standby takes over that had not
  seen the latest values.
"""

from __future__ import annotations

from ...errors import FencelockError, Unavailable
from ...model import Busy, Grant, Holding, Request, State, granted
from ...world import World
from .bonded import LOOK_S
from .keys import key_of
from .modes import Session, Wire
from .server_queue import Waiter
from .session_keeping import SessionKeeping
from .settings import Settings
from .warden import Hold
from .wire.connection import Rows

FREE_S = 0.0001  # whoever waited less found the lock free
TRIES_MAX = 3
CONTENDED_MAX = 1000


class SessionMode(SessionKeeping):
    """The protocol of advisory locks."""

    takes_keys = True

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        super().__init__(world, wire, settings)
        self._astray: dict[str, Hold] = {}
        """What cancelled callers may have been granted."""
        self._contended: set[int] = set()
        """Keys whose last taker had to wait: trying them is most likely in vain."""

    async def open(self) -> None:
        await super().open()
        await self._sessions.open()

    async def close(self) -> None:
        self._closing = True
        await self._warden.close()
        self._sessions.close()
        for hold in list(self._holds.values()):  # what ends takes itself out
            hold.session.drop()
        for waiter in self._queue.waiters.values():
            waiter.session.drop()

    def close_nowait(self) -> None:
        self._warden.close_nowait()

    # Taking

    async def acquire(self, request: Request) -> Grant | Busy:
        if (hold := self._holds.get(request.owner)) is not None:
            self._queue.waiters.pop(request.owner, None)
            return await self._again(request, hold)
        if (waiter := self._queue.waiters.get(request.owner)) is not None:
            return self._claim(waiter)
        key = key_of(request.name) if request.key is None else request.key
        if request.queue or (request.waits and key in self._contended):
            return await self._stand(request, key)
        taker = self._holdings.reserve(key, request.owner)
        if taker is True:
            return await self._try(request, key)
        return Busy(LOOK_S, holder=taker.meta if taker else "")

    async def _try(self, request: Request, key: int) -> Grant | Busy:
        asked_at = self.world.now()
        try:
            session, rows = await self._ask_shared(request, key, asked_at)
        except FencelockError:  # whatever else breaks it off leaves it to who withdraws this
            self._astray.pop(request.owner, None)
            self._holdings.free(key, request.owner)
            raise
        if rows[0][0] is None:
            self._astray.pop(request.owner, None)
            self._holdings.free(key, request.owner)
            return await self._busy(request)
        self._keep(request, key, session, rows[0][0], asked_at)
        self._astray.pop(request.owner, None)
        if session.dead:  # it has ended at this very moment
            self._bury(session)
            raise Unavailable("the session has ended; nothing is held")
        return granted(request.name, request.owner, int(rows[0][0] or 0), request.ttl, asked_at)

    async def _ask_shared(
        self, request: Request, key: int, asked_at: float
    ) -> tuple[Session, Rows]:
        """Try on a shared session; one that has ended while it was idle is no answer."""
        for _ in range(TRIES_MAX):
            session = await self._sessions.shared()
            # Should the caller be cancelled now, what withdraws this comes behind it.
            self._astray[request.owner] = Hold.of(request, key, session, 0, asked_at)
            try:
                rows = await self._sessions.try_lock(session, key, request.ttl)
            except Unavailable:
                if not session.dead:
                    raise
                self._bury(session)
            else:
                return session, rows
        raise Unavailable("no session lasts here; nothing happened")

    # Waiting

    async def _stand(self, request: Request, key: int) -> Grant | Busy:
        session = await self._sessions.own()
        limit = session.limit = self._sessions.limit(session, request.ttl)
        waiter = Waiter(request, key, session, self.world.now())
        await self._queue.stand(waiter, self._say.lock, (key, limit), self._let_in)
        return self._claim(waiter)

    def _let_in(self, waiter: Waiter, rows: Rows) -> None:
        """The server has let a waiter in: from now on the warden sees to its end."""
        fence, waited, _ = rows[0]
        if float(waited or 0) < FREE_S:
            self._contended.discard(waiter.key)
        elif len(self._contended) < CONTENDED_MAX:
            self._contended.add(waiter.key)
        since = waiter.let_in_at(waited, self.world.now())
        self._keep(waiter.request, waiter.key, waiter.session, fence, since)

    def _claim(self, waiter: Waiter) -> Grant | Busy:
        """What has become of a waiter, whose hold is there if it was let in."""
        owner, answer = waiter.request.owner, waiter.answer
        if answer is None:
            return Busy(LOOK_S, None, True)
        self._queue.waiters.pop(owner, None)
        hold = self._holds.get(owner)
        if hold is not None:
            return granted(hold.name, owner, hold.fence, hold.ttl, hold.until - hold.ttl)
        if isinstance(answer, FencelockError):
            raise Unavailable(f"the session of a waiter has ended ({answer}): try again")
        raise Unavailable("the lock was not claimed within its ttl, and was given back: try again")

    # Taking back

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.get(request.owner)
        if waiter is not None and waiter.answer is None:
            useful = await self._queue.call_off(waiter)  # broken off, it is to be done again
            if self._queue.waiters.pop(request.owner, None) and useful and not waiter.session.holds:
                self._sessions.done_with(waiter.session)
        self._queue.waiters.pop(request.owner, None)
        astray = self._astray.get(request.owner)
        if astray is not None and request.owner not in self._holds:
            self._holdings.add(request.owner, astray)
        self._astray.pop(request.owner, None)
        if (hold := self._holds.get(request.owner)) is not None:
            await self._give_back(request.owner, hold)
        await self._endings.settled([request.owner], self.settings.request_timeout)
        self._holdings.forget(request.owner)

    # Looking

    async def inspect(self, name: str) -> State:
        return await self._notes.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._notes.scan(prefix)
