"""``mode=advisory``: a session's advisory lock, which any other user of the same key respects.

The lock lives and dies with its session. Many locks of a client share a few sessions; a request
that must wait does so on a session of its own, in the server's own queue. The server would grant a
lock twice to one session, so a key that this client has taken is not requested again on a shared
session.

* **The end of a lease.** A session that is idle for its shortest ttl and a second is ended by the
  server (``idle_session_timeout``): that frees the locks of a frozen or unreachable holder. Renewal
  is a statement on that very session. A lease that is not renewed is unlocked by its own client in
  the background, since other leases on the session may go on.
* **Loss.** A session that does not answer, or was ended for any reason, is never replaced: all its
  leases are gone. Their holders are told at the moment when the kernel knows that the other side
  has closed the connection; of a session that has silently gone, at their next renewal.
* **Fence**: a sequence, drawn in the statement that locks: the same for all clients of a database,
  since they exclude each other whatever their options are. Each new session first raises it to the
  server's clock in microseconds, so that it does not go back when a standby takes over that had not
  received the latest values.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Address
from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import World
from .._sql.hold import Hold, renewal_timeout
from .._sql.hold_expiry import HoldExpiry
from .._sql.server_queue import LOOK_S, ServerQueue, ServerQueueEngine, Waiter
from .engine import PostgresqlEngine
from .held_locks import HeldLocks
from .holder_table import HolderTable, columns
from .keys import key_of
from .rows import Rows, integer, number, string
from .session_pool import SessionPool
from .statements import ADVISORY, Statements
from .wire import Session

FREE_S = 0.0001  # a wait that is shorter found the lock free
TRIES_MAX = 3
CONTENDED_MAX = 1000


class AdvisoryEngine(ServerQueueEngine[Session, Rows], PostgresqlEngine):
    """The protocol of advisory locks."""

    takes_keys = True
    traits = Traits(
        "correctness", "network", fence=True, push=True, revoke=False, advice="use mode=lease"
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        settings = self._settings
        self._sql = Statements("advisory", settings.table, settings.schema, ADVISORY)
        self._queue = ServerQueue(world, self._cancel)
        self._sessions = SessionPool(world, self._wire, settings, self._sql, self._ended)
        self._held = HeldLocks(world, self._sessions, settings.request_timeout)
        self._holds = self._held.by_owner
        self._table = HolderTable(world, self._wire, self._sql, self._holds)
        self._expiry = HoldExpiry(world, self._holds, self._held.expire, self._chores)
        self._sessions.expect = self._expiry.expect
        self._unanswered: dict[str, Hold[Session]] = {}
        """By owner: holds that the server may have granted to a call that did not wait for it."""
        self._contended: set[int] = set()
        """Keys whose last taker had to wait: trying them is most likely in vain."""
        self._closing = False

    async def _open(self) -> None:
        await super()._open()
        await self._sessions.open()

    async def close(self) -> None:
        self._closing = True
        await self._expiry.close()
        self._sessions.close()
        for hold in list(self._holds.values()):  # a session that ends removes its holds
            hold.session.drop()
        for waiter in self._queue.waiters.values():
            waiter.session.drop()
        await super().close()

    def close_nowait(self) -> None:
        self._expiry.close_nowait()
        super().close_nowait()

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if (hold := self._holds.get(request.owner)) is not None:
            self._queue.waiters.pop(request.owner, None)
            return await self._again(request, hold)
        if (waiter := self._queue.waiters.get(request.owner)) is not None:
            return self._claim(waiter)
        if request.owner in self._unanswered:
            await self._take_back(request.owner)
        key = key_of(request.name) if request.key is None else request.key
        if request.queue or (request.waits and key in self._contended):
            return await self._wait_in_queue(request, key)
        taker = self._held.reserve(key, request.owner)
        if taker is True:
            return await self._try(request, key)
        return Busy(LOOK_S, holder=taker.meta if taker else "")

    async def _try(self, request: Request, key: int) -> Grant | Busy:
        asked_at, owner = self.world.now(), request.owner
        try:
            session, fence = await self._try_shared(request, key, asked_at)
        except FencelockError as error:  # after any other exception, ``withdraw`` cleans up
            doubt = self._unanswered.get(owner) if isinstance(error, OutcomeUnknown) else None
            if doubt is None or doubt.session.dead:
                self._unanswered.pop(owner, None)
                self._held.free(key, owner)
            raise
        if fence is None:
            self._unanswered.pop(owner, None)
            self._held.free(key, owner)
            return await self._busy(request)
        self._hold(request, key, session, int(fence), asked_at)
        self._unanswered.pop(owner, None)
        if session.dead:  # it has ended in the meantime
            self._held.drop_session(session)
            raise Unavailable("the session has ended; nothing is held")
        return granted(request.name, owner, int(fence), request.ttl, asked_at)

    async def _try_shared(
        self, request: Request, key: int, asked_at: float
    ) -> tuple[Session, bytes | None]:
        """Try on a shared session; replace a session that has ended while it was idle."""
        for _ in range(TRIES_MAX):
            session = await self._sessions.shared()
            # If the caller is cancelled now, its ``withdraw`` finds this, and runs behind it.
            self._unanswered[request.owner] = Hold(request, key, session, 0, asked_at)
            try:
                rows = await self._sessions.try_lock(session, key, request.ttl)
            except Unavailable:
                if not session.dead:
                    raise
                self._held.drop_session(session)
            else:
                return session, rows[0][0]
        raise Unavailable("no session lasts here; nothing happened")

    async def _take_back(self, owner: str) -> None:
        """Unlock what an owner's try may have been granted whose reply it did not wait for.

        The session would otherwise be granted the lock a second time.
        """
        doubt = self._unanswered[owner]
        try:
            if not doubt.session.dead:
                await doubt.session.execute(self._sql.unlock, doubt.key)
        except FencelockError:
            if not doubt.session.dead:
                raise
        self._unanswered.pop(owner, None)
        self._held.free(doubt.key, owner)

    def _hold(
        self, request: Request, key: int, session: Session, fence: int, asked_at: float
    ) -> None:
        hold = Hold(request, key, session, fence, asked_at)
        self._held.add(request.owner, hold)
        self._expiry.expect(min(hold.until, self._table.add(hold)))

    # Wait

    async def _wait_in_queue(self, request: Request, key: int) -> Grant | Busy:
        session = await self._sessions.own()
        limit = session.limit = self._sessions.limit(session, request.ttl)
        waiter: Waiter[Session, Rows] = Waiter(request, key, session, self.world.now())
        lock = self._sql.lock
        await self._queue.join(
            waiter, lambda done: session.send_async(lock, (key, limit), done), self._on_granted
        )
        return self._claim(waiter)

    def _on_granted(self, waiter: Waiter[Session, Rows], rows: Rows) -> None:
        """Record the hold of a waiter that the server has granted: from now on it can expire."""
        fence, waited, _ = rows[0]
        if number(waited) < FREE_S:
            self._contended.discard(waiter.key)
        elif len(self._contended) < CONTENDED_MAX:
            self._contended.add(waiter.key)
        since = waiter.granted_at(number(waited), self.world.now())
        self._hold(waiter.request, waiter.key, waiter.session, integer(fence), since)

    def _claim(self, waiter: Waiter[Session, Rows]) -> Grant | Busy:
        """Return the outcome of a wait; the hold is recorded already if the lock was granted."""
        owner, answer = waiter.request.owner, waiter.answer
        if answer is None:
            return Busy(LOOK_S, None, True)
        self._queue.waiters.pop(owner, None)
        hold = self._holds.get(owner)
        if hold is not None:
            return granted(hold.name, owner, hold.fence, hold.ttl, hold.until - hold.ttl)
        if isinstance(answer, FencelockError):
            waiter.session.drop()  # the lock may have been granted before the error
            raise Unavailable(f"the session of a waiter has ended ({answer}): try again")
        raise Unavailable("the lock was not claimed within its ttl, and was given back: try again")

    async def _cancel(self, session: Session, within: float) -> object:
        return await self._wire.execute_soon(self._sql.cancel, session.pid, within=within)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        by_session: dict[Session, list[Grant]] = {}
        over: list[str] = []
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is None or hold.until <= now:
                over.append(grant.owner)
            else:
                self._held.change_ttl(hold, grant.ttl)
                by_session.setdefault(hold.session, []).append(grant)
        for session, some in by_session.items():
            await self._renew_on(session, some, now)
        for owner in over:  # last, since the others still have time to lose
            if (hold := self._holds.get(owner)) is not None:
                await self._held.give_back(owner, hold)
        await self._held.settled(over, renewal_timeout(grants))
        return [self._after(grant, now) for grant in grants]

    async def _renew_on(self, session: Session, grants: Sequence[Grant], now: float) -> None:
        some = [(g.owner, hold) for g in grants if (hold := self._holds.get(g.owner)) is not None]
        for _, hold in some:
            hold.shown = True
        try:
            await self._sessions.renew(session, columns(some, now))
            for grant in grants:
                if (hold := self._holds.get(grant.owner)) is not None:
                    hold.until = now + grant.ttl
                    self._expiry.expect(hold.until)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:
                raise
            self._held.drop_session(session)

    def _after(self, grant: Grant, now: float) -> Grant | Gone:
        hold = self._holds.get(grant.owner)
        if hold is not None and hold.until > now:
            return granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return Gone("session", "the session that held it has ended, or it was not renewed in time")

    async def _chores(self, now: float) -> float:
        """Show locks that are still held after a moment; lift the idle limit of unused sessions."""
        return min(await self._table.show(now), await self._sessions.rest(now))

    def _ended(self, session: Session) -> None:
        """Handle the end of a session: tell the owners of its locks."""
        owners = set(session.holds)
        self._held.drop_session(session)
        if owners and not self._closing and self.on_gone is not None:
            self.on_gone(owners, Gone("session", "the session that held it has ended"))

    # Release

    async def release(self, grant: Grant) -> bool:
        if (hold := self._holds.get(grant.owner)) is not None:
            return await self._held.give_back(grant.owner, hold)
        await self._held.forget(grant.owner)
        return False

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.get(request.owner)
        if waiter is not None and (waiter.answer is None or isinstance(waiter.answer, Exception)):
            useful = await self._queue.cancel(waiter)  # if interrupted here, it can be repeated
            if useful and isinstance(waiter.answer, Exception):
                await self._sessions.unlock_all(waiter.session)
                if self._queue.waiters.pop(request.owner, None):
                    self._sessions.put_back(waiter.session)
        self._queue.waiters.pop(request.owner, None)
        unanswered = self._unanswered.get(request.owner)
        if unanswered is not None and request.owner not in self._holds:
            self._held.add(request.owner, unanswered)
        self._unanswered.pop(request.owner, None)
        if (hold := self._holds.get(request.owner)) is not None:
            await self._held.give_back(request.owner, hold)
        await self._held.forget(request.owner)

    # Inspect

    async def _holder(self, name: str) -> tuple[str, int, str] | None:
        for owner, fence, meta in await self._wire.execute(self._sql.whose, name):
            return string(owner), integer(fence), string(meta)
        return None

    async def inspect(self, name: str) -> State:
        return await self._table.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._table.scan(prefix)
