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

from collections.abc import Sequence

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, Waiting, granted
from ...world import Signal, World
from .keys import key_of
from .lease import holding
from .link import Rows
from .modes import Mode, Session, Wire
from .notes import Notes
from .queueing import Queue, Waiter
from .sessions import Sessions
from .settings import Settings
from .statements import SessionStatements, Statement
from .warden import NEVER, Hold, Warden

LOOK_S = 60.0  # the server itself wakes a waiter
REST_S = 0.5  # after so long with nothing held, a session may be silent for as long as it likes
FREE_S = 0.0001  # whoever waited less found the lock free
TRIES_MAX = 3
CONTENDED_MAX = 1000


class SessionMode(Mode):
    """The protocol of advisory locks."""

    takes_keys = True
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

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        super().__init__(world, wire, settings)
        self._say = SessionStatements(settings.table, settings.schema)
        self._mutex = world.mutex()
        self._sessions = Sessions(wire, settings, self._say, self._ended)
        self._queue = Queue(world, wire)
        self._taken: dict[int, str] = {}
        """Keys that this client has, or is asking for, on a shared session: with the owner."""
        self._holds: dict[str, Hold] = {}
        self._astray: dict[str, Hold] = {}
        """What cancelled callers may have been granted."""
        self._contended: set[int] = set()
        """Keys whose last taker had to wait: trying them is most likely in vain."""
        self._notes = Notes(world, wire, self._say, self._holds)
        self._rest_at = NEVER
        self._closing = False
        self._warden = Warden(world, self._holds, self._give_back, self._chores)

    async def open(self) -> None:
        await super().open()
        await self._sessions.open()

    async def close(self) -> None:
        self._closing = True
        await self._warden.close()
        self._sessions.close()
        for hold in self._holds.values():
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
        with self._mutex:
            if self._taken.setdefault(key, request.owner) != request.owner:
                return self._busy_here(key)
        return await self._try(request, key)

    async def _try(self, request: Request, key: int) -> Grant | Busy:
        asked_at = self.world.now()
        try:
            session, rows = await self._ask_shared(request, key, asked_at)
        except Exception:
            self._taken.pop(key, None)
            raise
        if rows[0][0] is None:
            self._taken.pop(key, None)
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
            say, parameters = self._trying(session, request, key)
            # Should the caller be cancelled now, what withdraws this comes behind it.
            self._astray[request.owner] = Hold.of(request, key, session, 0, asked_at)
            try:
                rows = await session.ask(say, *parameters)
            except Unavailable:
                if not session.dead:
                    del self._astray[request.owner]
                    raise
                self._bury(session)
            except Exception:
                del self._astray[request.owner]
                raise
            else:
                del self._astray[request.owner]
                return session, rows
        del self._astray[request.owner]
        raise Unavailable("no session lasts here; nothing happened")

    def _trying(
        self, session: Session, request: Request, key: int
    ) -> tuple[Statement, tuple[object, ...]]:
        """What to say, with the session's limit only where it becomes another one."""
        limit = self._sessions.limit(session, request.ttl)
        if limit == session.limit:
            return self._say.try_lock, (key,)
        session.limit = limit
        return self._say.try_lock_limited, (key, limit)

    def _keep(
        self, request: Request, key: int, session: Session, fence: bytes | None, asked_at: float
    ) -> None:
        session.holds.add(request.owner)
        session.ttls[request.ttl] += 1
        hold = Hold.of(request, key, session, int(fence or 0), asked_at)
        self._holds[request.owner] = hold
        self._warden.expect(min(hold.until, self._notes.add(request.owner, hold)))

    async def _chores(self, now: float) -> float:
        """Note what is still held after a moment; let sessions rest that hold nothing."""
        again = await self._notes.write(now)
        if now >= self._rest_at:
            self._rest_at = NEVER
            await self._sessions.let_rest()
        return min(again, self._rest_at)

    async def _again(self, request: Request, hold: Hold) -> Grant | Busy:
        """The same owner asks once more: it has the same hold, for another ttl."""
        grant = granted(request.name, request.owner, hold.fence, request.ttl, self.world.now())
        answer = (await self.renew([grant]))[0]
        if isinstance(answer, Gone):
            raise Unavailable(f"{request.name!r} was lost meanwhile ({answer.reason}): try again")
        return answer

    async def _busy(self, request: Request) -> Busy | Grant:
        if request.waits:
            return Busy(LOOK_S)  # it asks again at once, to stand in line
        now = self.world.now()
        rows = await self.wire.ask(self._say.whose, request.name)
        if not rows:
            return Busy(LOOK_S)
        owner, fence, meta = rows[0]
        if (owner or b"").decode() == request.owner:  # granted to this owner, by another client
            return granted(request.name, request.owner, int(fence or 0), request.ttl, now)
        return Busy(LOOK_S, holder=(meta or b"").decode())

    def _busy_here(self, key: int) -> Busy:
        hold = self._holds.get(self._taken.get(key, ""))
        return Busy(LOOK_S, holder=hold.meta if hold is not None else "")

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

    async def watch(self, request: Request, signal: Signal) -> None:
        self._queue.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._queue.unwatch(request.owner)

    # Ending

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        by_session: dict[Session, list[Grant]] = {}
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is not None and hold.until <= now:
                await self._give_back(grant.owner, hold)
            elif hold is not None:
                if hold.ttl != grant.ttl:
                    hold.session.ttls[grant.ttl] += 1
                    _less(hold.session, hold.ttl)
                    hold.ttl = grant.ttl
                by_session.setdefault(hold.session, []).append(grant)
        for session, some in by_session.items():
            await self._beat(session, some, now)
        return [self._after(grant, now) for grant in grants]

    async def _beat(self, session: Session, grants: Sequence[Grant], now: float) -> None:
        names, owners, _, ttls, _, _ = map(list, zip(*grants, strict=True))
        try:
            session.limit = self._sessions.limit(session)
            await session.ask(self._say.beat, names, owners, ttls, session.limit)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:
                raise
            self._bury(session)
            return
        for grant in grants:
            if (hold := self._holds.get(grant.owner)) is not None:
                hold.until = now + grant.ttl
                self._warden.expect(hold.until)

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
        for owner in list(session.holds):
            self._notes.drop(owner)
            hold = self._holds.pop(owner, None)
            if hold is not None and self._taken.get(hold.key) == owner:
                del self._taken[hold.key]
        session.holds.clear()
        session.ttls.clear()

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.get(grant.owner)
        return hold is not None and await self._give_back(grant.owner, hold)

    async def _give_back(self, owner: str, hold: Hold) -> bool:
        """Unlock; only then may this client ask for the key again on a shared session."""
        in_time = hold.until > self.world.now()
        session = hold.session
        known = self._holds.pop(owner, None) is not None
        if known:
            session.holds.discard(owner)
            _less(session, hold.ttl)
        self._notes.drop(owner)
        try:
            rows = await self._unlock(session, owner, hold)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:  # it is still ours, and will be asked for again
                if known:
                    session.holds.add(owner)
                    session.ttls[hold.ttl] += 1
                    self._holds[owner] = hold
                raise
            self._bury(session)
            rows = []
        if self._taken.get(hold.key) == owner:
            del self._taken[hold.key]
        if not session.holds:
            self._sessions.done_with(session)
        return in_time and bool(rows) and rows[0][0] == b"t"

    async def _unlock(self, session: Session, owner: str, hold: Hold) -> Rows:
        limit = self._sessions.limit(session)
        if not session.ttls:  # nobody holds by it now: the warden sees to the limit if it stays so
            limit = session.limit
            if self._rest_at == NEVER:
                self._rest_at = self.world.now() + REST_S
                self._warden.expect(self._rest_at)
        changed, session.limit = limit != session.limit, limit
        if hold.noted:
            return await session.ask(self._say.unlock_noted, [hold.name], [owner], hold.key, limit)
        if changed:
            return await session.ask(self._say.unlock_limited, hold.key, limit)
        return await session.ask(self._say.unlock, hold.key)

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.pop(request.owner, None)
        if waiter is not None and waiter.answer is None:
            useful = await self._queue.call_off(waiter)
            if useful and not waiter.session.holds:
                self._sessions.done_with(waiter.session)
        hold = self._holds.get(request.owner) or self._astray.pop(request.owner, None)
        if hold is not None:
            await self._give_back(request.owner, hold)

    # Looking

    async def inspect(self, name: str) -> State:
        holders = await self._notes.shown(self._say.holder, name, key_of(name))
        waiters = await self.wire.ask(self._say.waiters, key_of(name))
        waiting = [
            Waiting(max(0.0, float(age or 0)), {"pid": int(pid or 0)}) for age, pid in waiters
        ]
        return State(name, tuple(map(holding, holders)), tuple(waiting))

    async def scan(self, prefix: str) -> list[Holding]:
        return [holding(row) for row in await self._notes.shown(self._say.scan, prefix, None)]


def _less(session: Session, ttl: float) -> None:
    """One hold less with this ttl."""
    session.ttls[ttl] -= 1
    if session.ttls[ttl] <= 0:
        del session.ttls[ttl]
