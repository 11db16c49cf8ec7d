"""What one client holds by ``GET_LOCK``: kept, given back when it is over, and forgotten.

The server gives a lock to a session and knows no owners. So who of this client holds what is known
here alone; whoever would change it has entered the session that carries it. Those who wait for the
same session to give locks back do so in one packet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import EngineError, FencelockError
from ...model import Grant, Request, granted
from ...world import World
from .get_lock import release_sql
from .holder_table import SHOW_S, Holders, literal
from .names import lock_name
from .sentinel import NEVER, Sentinel
from .settings import Settings
from .shared_packets import Round, Rounds
from .wire.session_pool import Hold, Lent, Session, Sessions, idle_limit

MANY = 250  # given back in one packet


class Farewell:
    """One who gives a lock back."""

    __slots__ = ("error", "freed", "hold")

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.freed = False
        """Whether it was given back while it was held."""
        self.error: FencelockError | None = None


class Holds:
    """The locks of one client, by the name that the server knows them by."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        sessions: Sessions,
        holders: Holders,
        freed: Callable[[str], object],
    ) -> None:
        self._world = world
        self._request_timeout = settings.request_timeout
        self._sessions = sessions
        self._holders = holders
        self._freed = freed
        """Called with a lock that is held no more."""
        self._all: dict[str, Hold] = {}
        self._rounds: Rounds[Session, Farewell] = Rounds(world, self._free_together, MANY)
        self.sentinel = Sentinel(world, self._watch_over)

    def __contains__(self, lock: str) -> bool:
        return lock in self._all

    def get(self, lock: str) -> Hold | None:
        return self._all.get(lock)

    def of(self, name: str, owner: str) -> Hold | None:
        """What an owner holds by a name."""
        hold = self._all.get(lock_name(name))
        if hold is None or hold.owner != owner:
            return None
        if hold.session.link.is_over:
            self.forget(hold)
            return None
        return hold

    def note(
        self, session: Session, request: Request, lock: str, fence: int, now: float, until: float
    ) -> None:
        """A session was given a lock, for whoever asked."""
        hold = Hold(session, request.name, lock, request.owner, fence)
        hold.ttl, hold.meta, hold.since, hold.until = request.ttl, request.meta, now, until
        self._all[lock] = session.holds[lock] = hold
        self.sentinel.expect(min(now + SHOW_S, until))

    async def confirm(self, hold: Hold, ttl: float) -> float | None:
        """See that the server still has it so, and extend it from now on; None when it is over."""
        now, limit = self._world.now(), idle_limit(ttl)
        lent = await self._sessions.enter(hold.session, self._request_timeout)
        if lent is None:
            self.forget(hold)
            return None
        try:
            if self._all.get(hold.lock) is not hold:
                return None
            check = f"SELECT IS_USED_LOCK({literal(hold.lock)})=CONNECTION_ID()"
            replies = await self._sessions.ask(hold.session, check, max(limit, hold.session.limit))
            if replies[-1].rows != [(b"1",)]:
                self.forget(hold)
                return None
            hold.until = now + ttl
            return now
        finally:
            self._sessions.give_back(lent)

    async def extend(
        self, session: Session, batch: Sequence[tuple[Hold, Grant]]
    ) -> dict[str, Grant]:
        """Show the server that a session lives, and see that it still has its locks."""
        limit = max(session.limit, *(idle_limit(grant.ttl) for _, grant in batch))
        lent = await self._sessions.enter(session, self._request_timeout)
        if lent is None:
            return {}
        try:
            now = self._world.now()
            locks = ",".join(f"IS_USED_LOCK({literal(hold.lock)})" for hold, _ in batch)
            replies = await self._sessions.ask(session, f"SELECT {locks}", limit)
        except FencelockError:
            if session.link.is_over:
                return {}
            raise
        finally:
            self._sessions.give_back(lent)
        answers: dict[str, Grant] = {}
        for (hold, grant), used in zip(batch, replies[-1].rows[0], strict=True):
            if used is None or int(used) != session.number:
                self.forget(hold)
            elif self._all.get(hold.lock) is hold:
                hold.ttl, hold.until = grant.ttl, now + grant.ttl
                answers[grant.owner] = granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return answers

    async def show(self, owners: dict[str, Grant]) -> None:
        """Write again about those that were written about, and are extended."""
        shown = [h for h in list(self._all.values()) if h.shown and h.owner in owners]
        if shown:
            await self._holders.show(shown)

    async def free(self, hold: Hold) -> bool:
        """Give a lock back; False when its session had lost it."""
        session, farewell = hold.session, Farewell(hold)
        if (lent := self._sessions.try_enter(session)) is not None:
            await self._free_at_once(lent, farewell)
        else:
            shared, leads = self._rounds.join(session, farewell)
            await self._rounds.end(session, shared, leads)
        if farewell.error is not None:
            raise farewell.error
        return farewell.freed

    async def _free_at_once(self, lent: Lent, farewell: Farewell) -> None:
        try:
            await self._give_back(lent.session, [farewell])
        finally:
            self._sessions.give_back(lent)

    async def _free_together(self, session: Session, shared: Round[Farewell]) -> None:
        lent = await self._sessions.enter(session, self._request_timeout)
        if lent is None:
            for farewell in self._rounds.close(session, shared):
                self.forget(farewell.hold)
            return
        try:
            await self._give_back(session, self._rounds.close(session, shared))
        finally:
            self._sessions.give_back(lent)

    async def _give_back(self, session: Session, farewells: Sequence[Farewell]) -> None:
        """Give locks back on a session that was entered."""
        now = self._world.now()
        held = [one for one in farewells if self._all.get(one.hold.lock) is one.hold]
        if not held:
            return
        rows = self._holders.farewell([one.hold for one in held])
        locks = [one.hold.lock for one in held]
        try:
            relied_on = len(session.holds) > len(held)
            sql = f"{rows}{release_sql(locks)}"
            await self._sessions.ask(session, sql, relied_on=relied_on)
        except EngineError:
            if session.link.is_over or len(held) == 1:
                raise
            await self._give_back_each(session, held)
            return
        finally:
            if session.link.is_over:
                for one in held:
                    self.forget(one.hold)
        for one in held:  # it lives, and so did the locks
            one.freed = one.hold.until > now
            self.forget(one.hold)

    async def _give_back_each(self, session: Session, farewells: Sequence[Farewell]) -> None:
        """What failed for all may be the fault of one, who must not keep the others' locks."""
        for farewell in farewells:
            try:
                await self._give_back(session, [farewell])
            except FencelockError as error:
                farewell.error = error

    def forget(self, hold: Hold) -> None:
        """It is over."""
        hold.over = True
        hold.session.holds.pop(hold.lock, None)
        if self._all.get(hold.lock) is hold:
            del self._all[hold.lock]
        self._freed(hold.lock)

    async def _watch_over(self) -> float:
        """Give back what has run out, and write about what lasts."""
        now = self._world.now()
        holds = list(self._all.values())
        for hold in holds:
            if hold.until <= now:
                try:
                    await self.free(hold)
                except FencelockError:
                    pass  # its session is over, and the lock with it; else there is a next time
        lasting = [h for h in holds if not h.shown and now - h.since >= SHOW_S]
        lasting = [h for h in lasting if self._all.get(h.lock) is h and h.until > now]
        if lasting:
            await self._holders.show(lasting)
        due = min(
            (h.until if h.shown else min(h.until, h.since + SHOW_S) for h in holds), default=NEVER
        )
        return due if due > now else now + SHOW_S / 10
