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
* **Fence**: a sequence, drawn in the statement that locks. Each new session first raises it to the
  server's clock in microseconds, so that it does not go back when a standby takes over that had not
  seen the latest values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, granted
from ...world import World
from .bonded import LOOK_S, BondedMode
from .endings import Endings
from .holdings import Holdings
from .keys import key_of
from .link import Rows
from .modes import Session, Wire
from .notes import Notes
from .queueing import Waiter
from .reading import soon
from .sessions import Sessions
from .settings import Settings
from .statements import SessionStatements
from .warden import NEVER, Hold, Warden

REST_S = 0.5  # after so long with nothing held, a session may be silent for as long as it likes
FREE_S = 0.0001  # whoever waited less found the lock free
TRIES_MAX = 3
CONTENDED_MAX = 1000


class SessionMode(BondedMode):
    """The protocol of advisory locks."""

    takes_keys = True

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self._say = SessionStatements(settings.table, settings.schema)
        super().__init__(world, wire, settings, self._say.whose)
        self._sessions = Sessions(wire, settings, self._say, self._ended)
        self._holdings = Holdings(world)
        self._holds = self._holdings.by_owner
        self._endings = Endings(world, self._holds)
        self._astray: dict[str, Hold] = {}
        """What cancelled callers may have been granted."""
        self._contended: set[int] = set()
        """Keys whose last taker had to wait: trying them is most likely in vain."""
        self._notes = Notes(world, wire, self._say, self._holds)
        self._rest_at = NEVER
        self._warden = Warden(world, self._holds, self._give_back, self._chores)

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

    def abandon(self) -> None:
        self._warden.abandon()

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
        except Exception:
            self._astray.pop(request.owner, None)
            self._holdings.free(key, request.owner)
            raise
        del self._astray[request.owner]
        if rows[0][0] is None:
            self._holdings.free(key, request.owner)
            return await self._busy(request)
        self._keep(request, key, session, rows[0][0], asked_at)
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

    def _keep(
        self, request: Request, key: int, session: Session, fence: bytes | None, asked_at: float
    ) -> None:
        hold = Hold.of(request, key, session, int(fence or 0), asked_at)
        self._holdings.add(request.owner, hold)
        self._warden.expect(min(hold.until, self._notes.add(request.owner, hold)))

    async def _chores(self, now: float) -> float:
        """Note what is still held after a moment; let sessions rest that hold nothing."""
        again = await self._notes.write(now)
        if now >= self._rest_at:
            self._rest_at = NEVER
            await self._sessions.let_rest()
        return min(again, self._rest_at)

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

    # Ending

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        by_session: dict[Session, list[Grant]] = {}
        over: list[str] = []
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is None or hold.until <= now:
                over.append(grant.owner)
            else:
                self._holdings.change(hold, grant.ttl)
                by_session.setdefault(hold.session, []).append(grant)
        for session, some in by_session.items():
            await self._beat(session, some, now)
        for owner in over:  # after those that still have time to lose
            if (hold := self._holds.get(owner)) is not None:
                await self._end(owner, hold)
        await self._endings.settled(over, soon(grants))
        return [self._after(grant, now) for grant in grants]

    async def _beat(self, session: Session, grants: Sequence[Grant], now: float) -> None:
        names, owners, _, ttls, _, _ = map(list, zip(*grants, strict=True))
        unnoted = await self._notes.keep_back([grant.owner for grant in grants], soon(grants))
        try:
            session.limit = self._sessions.limit(session)
            await session.ask(self._say.beat, names, owners, ttls, session.limit)
            for grant in grants:
                if (hold := self._holds.get(grant.owner)) is not None:
                    hold.until = now + grant.ttl
                    self._warden.expect(hold.until)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:
                raise
            self._bury(session)
        finally:
            self._warden.expect(self._notes.go_on(unnoted))

    def _after(self, grant: Grant, now: float) -> Grant | Gone:
        hold = self._holds.get(grant.owner)
        if hold is not None and hold.until > now:
            return granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return Gone("session", "the session that held it has ended, or it was not renewed in time")

    def _ended(self, session: Session) -> None:
        """Tell those who held by a session that has ended."""
        owners = set(session.holds)
        self._bury(session)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session that held it has ended"))

    def _bury(self, session: Session) -> None:
        """A session has ended: whatever it held is gone."""
        for owner in self._holdings.bury(session):
            self._notes.drop(owner)

    async def release(self, grant: Grant) -> bool:
        if (hold := self._holds.get(grant.owner)) is not None:
            return await self._give_back(grant.owner, hold)
        await self._endings.settled([grant.owner], self.settings.patience)
        return False

    def _give_back(self, owner: str, hold: Hold) -> Awaitable[bool]:
        """Unlock, unless somebody else does; say whether that came in time."""
        in_time = hold.until > self.world.now()
        return self._let_go(owner, hold) if in_time else self._end(owner, hold)

    async def _end(self, owner: str, hold: Hold) -> bool:
        """Unlock what is over."""
        if self._endings.begin(owner, hold):
            try:
                await self._let_go(owner, hold)
            finally:
                self._endings.done(owner)
        return False

    async def _let_go(self, owner: str, hold: Hold) -> bool:
        """Unlock; only then may this client ask for the key again on a shared session."""
        if not self._holdings.remove(owner, hold):
            return False
        session = hold.session
        self._notes.drop(owner)
        try:
            rows = await self._unlock(session, owner, hold)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:  # it is still ours, and will be asked for again
                self._holdings.add(owner, hold)
                raise
            self._bury(session)
            rows = []
        self._holdings.free(hold.key, owner)
        if not session.holds:
            self._sessions.done_with(session)
        return bool(rows) and rows[0][0] == b"t"

    def _unlock(self, session: Session, owner: str, hold: Hold) -> Awaitable[Rows]:
        if not session.ttls and self._rest_at == NEVER:  # nobody holds by it now
            self._rest_at = self.world.now() + REST_S
            self._warden.expect(self._rest_at)
        return self._sessions.unlock(session, owner, hold)

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.pop(request.owner, None)
        if waiter is not None and waiter.answer is None:
            useful = await self._queue.call_off(waiter)
            if useful and not waiter.session.holds:
                self._sessions.done_with(waiter.session)
        if (astray := self._astray.pop(request.owner, None)) is not None:
            self._holdings.add(request.owner, astray)
        if (hold := self._holds.get(request.owner)) is not None:
            await self._give_back(request.owner, hold)
        await self._endings.settled([request.owner], self.settings.patience)

    # Looking

    async def inspect(self, name: str) -> State:
        return await self._notes.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._notes.scan(prefix)
