"""What one client holds by ``GET_LOCK``: kept, given back when it is over, and forgotten.

The server gives a lock to a session and knows no owners. So who of this client holds what is known
here alone; whoever would change it has entered the session that carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import FencelockError
from ...model import Grant, Request, granted
from ...world import World
from .holders import SHOW_S, Holders, literal
from .names import lock_name
from .sentinel import NEVER, Sentinel
from .sessions import Hold, Session, Sessions, idle_limit
from .settings import Settings


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
        self._patience = settings.patience
        self._sessions = sessions
        self._holders = holders
        self._freed = freed
        """Called with a lock that is held no more."""
        self._all: dict[str, Hold] = {}
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
        if not await self._sessions.enter(hold.session, self._patience):
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
            self._sessions.give_back(hold.session)

    async def extend(
        self, session: Session, batch: Sequence[tuple[Hold, Grant]]
    ) -> dict[str, Grant]:
        """Show the server that a session lives, and see that it still has its locks."""
        limit = max(session.limit, *(idle_limit(grant.ttl) for _, grant in batch))
        if not await self._sessions.enter(session, self._patience):
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
            self._sessions.give_back(session)
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
        if not await self._sessions.enter(hold.session, self._patience):
            self.forget(hold)
            return False
        try:
            if self._all.get(hold.lock) is not hold:
                return False
            in_time = hold.until > self._world.now()
            farewell = self._holders.farewell(hold)
            sql = f"{farewell}DO RELEASE_LOCK({literal(hold.lock)})"
            await self._sessions.ask(hold.session, sql)  # it lives, and so did the lock
            self.forget(hold)
            return in_time
        finally:
            if hold.session.link.is_over:
                self.forget(hold)
            self._sessions.give_back(hold.session)

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
