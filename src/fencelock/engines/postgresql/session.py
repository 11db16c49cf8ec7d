"""``mode=advisory``: a session's advisory lock, which any other user of the same key respects.

The lock lives and dies with its session. Many locks of a client share a few sessions; whoever has
to wait does so on a session of its own, in the server's own queue. The server would grant a lock
twice to one session, so a key that this client has taken is not asked for again on a shared one.

* **The end of a lease.** A session that says nothing for as long as its shortest ttl, and a second,
  is ended by the server (``idle_session_timeout``): that frees what a frozen or unreachable holder
  held. Renewal is a word on that very session. A lease that nobody renews is given back by the
  warden of its own client, since others on the session may go on.
* **Loss.** A session that does not answer, or was ended by anybody, is never replaced: all its
  leases are gone, and their holders are told at their next renewal.
* **Fence**: a sequence, drawn in the statement that locks. Each new session first raises it to the
  server's clock in microseconds, so that it does not go back when a standby takes over that had not
  seen the latest values.
* A waiter is told by the server how long it waited. Its lease counts from then, not from when
  it heard of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import EngineError, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, Waiting, granted
from ...world import Signal, World
from .keys import key_of
from .lease import holding
from .link import Rows
from .modes import Mode, Session, Wire
from .settings import Settings
from .statements import SessionStatements, Statement
from .warden import Hold, Warden

LOOK_S = 60.0  # the server itself wakes a waiter
GRACE_S = 1.0  # the server ends a silent session so much later than its shortest lease
MOMENT_S = 0.02  # so long a blocking caller waits by itself before others do it for it
CONTENDED_MAX = 1000
REST_S = 0.5  # after so long with nothing held, a session may be silent for as long as it likes
SHARED_TRIES = 3
SPARE_MAX = 4  # sessions that are kept for the next who have to wait
FREE_S = 0.0001  # whoever waited less found the lock free
CANCEL_S = 1.0


class Waiter:
    """Somebody in the server's queue, on a session of its own."""

    def __init__(self, request: Request, key: int, session: Session, sent_at: float) -> None:
        self.request = request
        self.key = key
        self.session = session
        self.sent_at = sent_at
        self.answer: Rows | Exception | None = None


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
        self._sessions: list[Session] = []
        self._spare: list[Session] = []
        self._taken: dict[int, str] = {}
        """Keys that this client has, or is asking for, on a shared session: with the owner."""
        self._holds: dict[str, Hold] = {}
        self._astray: dict[str, Hold] = {}
        """What cancelled callers may have been granted."""
        self._waiters: dict[str, Waiter] = {}
        self._signals: dict[str, Signal] = {}
        self._contended: set[int] = set()
        """Keys whose last taker had to wait: trying them is most likely in vain."""
        self._next = 0
        self._warden = Warden(world, self._holds, self._give_back, self._let_rest)

    async def open(self) -> None:
        await super().open()
        first = await self._begin()
        if not self.wire.direct:
            await self._refuse_shared_sessions(first)
        self._sessions.append(first)

    async def _begin(self) -> Session:
        session = await self.wire.session()
        try:
            session.pid = int((await session.ask(self._say.begin))[0][0] or 0)
        except BaseException as error:
            session.drop()
            if type(error) is EngineError:
                raise Misconfigured(
                    f"mode=advisory needs PostgreSQL 14 or newer: {error}"
                ) from error
            raise
        return session

    async def _refuse_shared_sessions(self, first: Session) -> None:
        """See whether two connections of ours are one session, or one is two: a pooler's work."""
        second = await self._begin()
        again = int((await first.ask(self._say.begin))[0][0] or 0)
        second.drop()
        if second.pid == first.pid or again != first.pid:
            first.drop()
            raise Misconfigured(
                f"{self.settings.where} is a pooler that gives every transaction another session, "
                "so an advisory lock would be anybody's: use mode=lease, which works through it, "
                "or connect to the server itself"
            )

    async def close(self) -> None:
        await self._warden.close()
        self._drop_all()

    def abandon(self) -> None:
        self._warden.abandon()

    def _drop_all(self) -> None:
        held = [hold.session for hold in self._holds.values()]
        waiting = [waiter.session for waiter in self._waiters.values()]
        for session in [*self._sessions, *self._spare, *held, *waiting]:
            session.drop()

    # Taking

    async def acquire(self, request: Request) -> Grant | Busy:
        hold = self._holds.get(request.owner)
        if hold is not None:
            return await self._again(request, hold)
        if request.owner in self._waiters:
            return self._claim(self._waiters[request.owner])
        key = key_of(request.name) if request.key is None else request.key
        if request.queue:
            return await self._stand(request, key)
        if request.waits and key in self._contended:
            return Busy(LOOK_S)  # it asks again at once, to stand in line
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
        if not rows:
            self._taken.pop(key, None)
            return await self._busy(request, key)
        return self._hold(request, key, session, int(rows[0][0] or 0), asked_at)

    async def _ask_shared(
        self, request: Request, key: int, asked_at: float
    ) -> tuple[Session, Rows]:
        """Try on a shared session; one that has ended while it was idle is no answer."""
        for _ in range(SHARED_TRIES):
            session = await self._shared()
            say, parameters = self._trying(session, request, key)
            # Should the caller be cancelled now, what withdraws this comes behind it.
            self._astray[request.owner] = Hold.of(request, key, session, 0, asked_at)
            try:
                rows = await session.ask(say, *parameters)
            except Unavailable:
                del self._astray[request.owner]
                if not session.dead:
                    raise
                self._bury(session)
            except Exception:
                del self._astray[request.owner]
                raise
            else:
                del self._astray[request.owner]
                return session, rows
        raise Unavailable("no session lasts here; nothing happened")

    def _trying(
        self, session: Session, request: Request, key: int
    ) -> tuple[Statement, tuple[object, ...]]:
        """What to say, and the session's new limit only where it is another one."""
        limit = self._limit(session, request.ttl)
        if limit == session.limit:
            return self._say.try_lock, (key, *_about(request))
        session.limit = limit
        return self._say.try_lock_limited, (key, *_about(request), limit)

    def _hold(
        self, request: Request, key: int, session: Session, fence: int, asked_at: float
    ) -> Grant:
        name, owner, ttl = request[:3]
        session.holds.add(owner)
        session.ttls[ttl] += 1
        self._holds[owner] = Hold.of(request, key, session, fence, asked_at)
        self._warden.expect(asked_at + ttl)
        return granted(name, owner, fence, ttl, asked_at)

    async def _again(self, request: Request, hold: Hold) -> Grant | Busy:
        """The same owner asks once more: it has the same hold, for another ttl."""
        grant = granted(request.name, request.owner, hold.fence, request.ttl, self.world.now())
        answer = (await self.renew([grant]))[0]
        if isinstance(answer, Gone):
            raise Unavailable(f"{request.name!r} was lost meanwhile ({answer.reason}): try again")
        return answer

    async def _busy(self, request: Request, key: int) -> Busy | Grant:
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

    async def _shared(self) -> Session:
        """A session for locks that are not waited for: the next one, or a new one."""
        alive = [session for session in self._sessions if not session.dead]
        if len(alive) < len(self._sessions):
            self._sessions = alive
        if not alive:
            alive = [await self._begin()]
            self._sessions += alive
        self._next += 1
        return alive[self._next % len(alive)]

    def _limit(self, session: Session, *ttls: float) -> str:
        """How long the server lets a session be silent, in milliseconds; 0 is for ever."""
        shortest = min([*session.ttls, *ttls], default=None)
        return "0" if shortest is None else f"{(shortest + GRACE_S) * 1000:.0f}"

    # Waiting

    async def _stand(self, request: Request, key: int) -> Grant | Busy:
        session = self._spare.pop() if self._spare else None
        if session is None or session.dead:
            session = await self._begin()
        waiter = Waiter(request, key, session, self.world.now())
        self._waiters[request.owner] = waiter
        limit = session.limit = f"{(request.ttl + GRACE_S) * 1000:.0f}"

        def heard(answer: Rows | Exception) -> None:
            waiter.answer = answer
            if (signal := self._signals.get(request.owner)) is not None:
                signal.set()
            if not isinstance(answer, Exception):
                self._receive(waiter)

        session.post(self._say.lock, (key, *_about(request), limit), heard)
        await session.linger(MOMENT_S)  # most turns are short
        return self._claim(waiter)

    def _receive(self, waiter: Waiter) -> None:
        """The server has let a waiter in: from now on the warden sees to its end."""
        assert isinstance(waiter.answer, list)
        fence, waited = waiter.answer[0]
        if float(waited or 0) < FREE_S:
            self._contended.discard(waiter.key)
        elif len(self._contended) < CONTENDED_MAX:
            self._contended.add(waiter.key)
        asked_at = min(waiter.sent_at + float(waited or 0), self.world.now())
        self._hold(waiter.request, waiter.key, waiter.session, int(fence or 0), asked_at)

    def _claim(self, waiter: Waiter) -> Grant | Busy:
        """What has become of a waiter, whose hold is already there if it was let in."""
        if waiter.answer is None:
            return Busy(LOOK_S, None, True)
        self._waiters.pop(waiter.request.owner, None)
        hold = self._holds.get(waiter.request.owner)
        if hold is not None:
            return granted(
                hold.name, waiter.request.owner, hold.fence, hold.ttl, hold.until - hold.ttl
            )
        if isinstance(waiter.answer, FencelockError):
            raise Unavailable(f"the session of a waiter has ended ({waiter.answer}): try again")
        raise Unavailable("the lock was not claimed within its ttl, and was given back: try again")

    async def watch(self, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    async def unwatch(self, request: Request) -> None:
        self._signals.pop(request.owner, None)

    # Ending

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        by_session: dict[Session, list[Grant]] = {}
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is not None and hold.until > now:
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
            session.limit = self._limit(session)
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

    def _bury(self, session: Session) -> None:
        """A session has ended: whatever it held is gone."""
        for owner in list(session.holds):
            self._forget(owner)

    def _forget(self, owner: str) -> Hold | None:
        hold = self._holds.pop(owner, None)
        if hold is not None:
            hold.session.holds.discard(owner)
            _less(hold.session, hold.ttl)
            if self._taken.get(hold.key) == owner:
                del self._taken[hold.key]
        return hold

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.get(grant.owner)
        return hold is not None and await self._give_back(grant.owner, hold)

    async def _give_back(self, owner: str, hold: Hold) -> bool:
        """Unlock; only then may this client ask for the key again on a shared session."""
        in_time = hold.until > self.world.now()
        session = hold.session
        if self._holds.pop(owner, None) is not None:
            session.holds.discard(owner)
            _less(session, hold.ttl)
        limit = self._limit(session)
        if not session.ttls:  # nobody holds by it now: the warden sees to the limit, if it stays so
            limit = session.limit
            self._warden.rest(self.world.now() + REST_S)
        try:
            if limit == session.limit:
                rows = await session.ask(self._say.unlock, hold.key)
            else:
                session.limit = limit
                rows = await session.ask(self._say.unlock_limited, hold.key, limit)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:
                raise
            self._bury(session)
            return False
        finally:
            if self._taken.get(hold.key) == owner:
                del self._taken[hold.key]
        if session not in self._sessions and not session.holds:
            self._keep_or_drop(session)
        return in_time and rows[0][0] == b"t"

    async def _let_rest(self) -> None:
        """Let the server be patient with sessions by which nothing is held."""
        for session in [*self._sessions, *self._spare]:
            if not session.ttls and session.limit != "0" and not session.dead:
                session.limit = "0"
                try:
                    await session.ask(self._say.beat, [], [], [], "0")
                except FencelockError:
                    pass  # it will be found dead

    def _keep_or_drop(self, session: Session) -> None:
        if len(self._spare) < SPARE_MAX and not session.dead:
            self._spare.append(session)
        else:
            session.drop()

    async def withdraw(self, request: Request) -> None:
        waiter = self._waiters.pop(request.owner, None)
        if waiter is not None and waiter.answer is None:
            await self._call_off(waiter)
        hold = self._holds.get(request.owner) or self._astray.pop(request.owner, None)
        if hold is not None:
            await self._give_back(request.owner, hold)

    async def _call_off(self, waiter: Waiter) -> None:
        """Take a waiter out of the server's queue; its session stays of use."""
        told = self._signals.setdefault(waiter.request.owner, self.world.signal())
        try:
            await self.wire.ask(self._say.cancel, waiter.session.pid)
            deadline = self.world.now() + CANCEL_S
            while waiter.answer is None and self.world.now() < deadline:
                told.clear()
                if waiter.answer is None:
                    await self.world.wait(told, deadline)
        except FencelockError:
            pass
        self._signals.pop(waiter.request.owner, None)
        if waiter.answer is None:
            waiter.session.drop()  # the server finds out when it would let the waiter in
        elif isinstance(waiter.answer, Exception):
            self._keep_or_drop(waiter.session)

    # Looking

    async def inspect(self, name: str) -> State:
        holders = await self.wire.ask(self._say.holder, name)
        waiters = await self.wire.ask(self._say.waiters, key_of(name))
        return State(
            name,
            tuple(map(holding, holders)),
            tuple(
                Waiting(max(0.0, float(age or 0)), {"pid": int(pid or 0)}) for age, pid in waiters
            ),
        )

    async def scan(self, prefix: str) -> list[Holding]:
        return [holding(row) for row in await self.wire.ask(self._say.scan, prefix)]


def _less(session: Session, ttl: float) -> None:
    """One hold less with this ttl."""
    session.ttls[ttl] -= 1
    if session.ttls[ttl] <= 0:
        del session.ttls[ttl]


def _about(request: Request) -> tuple[object, ...]:
    return request.owner, request.name, request.ttl, request.meta
