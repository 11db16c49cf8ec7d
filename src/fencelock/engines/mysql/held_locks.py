"""What one client holds by ``GET_LOCK``: extended, given back when it is over, and forgotten.

The server gives a lock to a session and knows no owners. So who of this client holds what is known
here alone; whoever would change it has locked the session that carries it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ...errors import FencelockError
from ...model import Grant, Holding, Request, granted
from ...world import World
from .._sql.hold_expiry import HoldExpiry
from ..timer import NEVER
from .get_lock import GetLockSql, read_users
from .holder_table import SHOW_S, HolderTable
from .names import lock_name
from .settings import Settings
from .wire.session_pool import Session, SessionHold, SessionPool, idle_limit


class HeldLocks:
    """The locks of one client, by the name that the server knows them by."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        sessions: SessionPool,
        table: HolderTable,
        sql: GetLockSql,
        freed: Callable[[str], object],
    ) -> None:
        self._world = world
        self._request_timeout = settings.request_timeout
        self._sessions = sessions
        self._table = table
        self._sql = sql
        self._freed = freed
        """Called with a lock that is held no more."""
        self._all: dict[str, SessionHold] = {}
        self.expiry = HoldExpiry(world, self._all, self._expire, self._show_what_lasts)

    def __contains__(self, lock: str) -> bool:
        return lock in self._all

    def get(self, lock: str) -> SessionHold | None:
        return self._all.get(lock)

    def of(self, name: str, owner: str) -> SessionHold | None:
        """What an owner holds by a name."""
        hold = self._all.get(lock_name(name))
        if hold is None or hold.owner != owner:
            return None
        if hold.session.connection.is_closed:
            self.forget(hold)
            return None
        return hold

    def is_alive(self, hold: SessionHold) -> bool:
        """Whether a hold goes on, as far as is known here."""
        return not hold.session.connection.is_closed and hold.until > self._world.now()

    def holding(self, name: str) -> Holding | None:
        """Who of this client holds a name."""
        hold = self._all.get(lock_name(name))
        if hold is None or not self.is_alive(hold):
            return None
        now, meta = self._world.now(), json.loads(hold.meta)
        return Holding(name, hold.fence, hold.ttl, now - hold.taken_at, hold.until - now, meta)

    def add(
        self, session: Session, request: Request, lock: str, fence: int, now: float, until: float
    ) -> None:
        """Remember that a session was given a lock, for whoever requested it."""
        hold = SessionHold(request, lock, session, fence, now)
        hold.until = until
        self._all[lock] = session.holds[lock] = hold
        self.expiry.expect(min(now + SHOW_S, until))

    async def confirm(self, hold: SessionHold, ttl: float) -> float | None:
        """See that the server still has it so, and extend it from now on; None when it is over."""
        now, session = self._world.now(), hold.session
        lent = await self._sessions.lock(session, self._request_timeout)
        if lent is None:
            self.forget(hold)
            return None
        try:
            if self._all.get(hold.lock) is not hold:
                return None
            limit = max(idle_limit(ttl), session.limit)
            replies = await self._sessions.query(session, self._sql.users([hold.lock]), limit)
            if read_users(replies) != [session.number]:
                self.forget(hold)
                return None
            hold.until = now + ttl
            return now
        finally:
            self._sessions.give_back(lent)

    async def extend(self, grants: Sequence[Grant]) -> dict[str, Grant]:
        """Extend holds, by session, and write about those that others can read about."""
        batches: dict[Session, list[tuple[SessionHold, Grant]]] = {}
        for grant in grants:
            hold = self.of(grant.name, grant.owner)
            if hold is not None:
                batches.setdefault(hold.session, []).append((hold, grant))
        extended: dict[str, Grant] = {}
        if len(batches) == 1:
            for session, batch in batches.items():
                extended = await self._extend(session, batch)
        elif batches:
            now = self._world.now()
            for found in await self._world.gather(
                [lambda s=s, b=b: self._extend(s, b) for s, b in batches.items()],  # type: ignore[misc]
                now + min(grant.ttl for grant in grants) / 4,
            ):
                if isinstance(found, dict):
                    extended.update(found)
        shown = [h for h in list(self._all.values()) if h.shown and h.owner in extended]
        if shown:
            await self._table.show(shown)
        return extended

    async def _extend(
        self, session: Session, batch: Sequence[tuple[SessionHold, Grant]]
    ) -> dict[str, Grant]:
        """Show the server that a session lives, and see that it still has its locks."""
        limit = max(session.limit, *(idle_limit(grant.ttl) for _, grant in batch))
        lent = await self._sessions.lock(session, self._request_timeout)
        if lent is None:
            return {}
        try:
            now = self._world.now()
            users = self._sql.users([hold.lock for hold, _ in batch])
            replies = await self._sessions.query(session, users, limit)
        except FencelockError:
            if session.connection.is_closed:
                return {}
            raise
        finally:
            self._sessions.give_back(lent)
        answers: dict[str, Grant] = {}
        for (hold, grant), user in zip(batch, read_users(replies), strict=True):
            if user != session.number:
                self.forget(hold)
            elif self._all.get(hold.lock) is hold:
                hold.ttl, hold.until = grant.ttl, now + grant.ttl
                answers[grant.owner] = granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return answers

    async def free(self, hold: SessionHold) -> bool:
        """Give a lock back; False when its session had lost it."""
        lent = self._sessions.try_lock(hold.session)
        if lent is None:
            lent = await self._sessions.lock(hold.session, self._request_timeout)
            if lent is None:
                self.forget(hold)
                return False
        try:
            return await self._release(hold)
        finally:
            self._sessions.give_back(lent)

    async def _release(self, hold: SessionHold) -> bool:
        """Give a lock back on its session, which was locked."""
        now, session = self._world.now(), hold.session
        if self._all.get(hold.lock) is not hold:
            return False
        sql = self._sql.release(hold.lock, hold.owner if hold.shown else "")
        try:
            await self._sessions.query(session, sql, relied_on=len(session.holds) > 1)
        finally:
            if session.connection.is_closed:
                self.forget(hold)
        self.forget(hold)  # the session lives, and so did the lock
        return hold.until > now

    def forget(self, hold: SessionHold) -> None:
        """It is over."""
        hold.over = True
        hold.session.holds.pop(hold.lock, None)
        if self._all.get(hold.lock) is hold:
            del self._all[hold.lock]
        self._freed(hold.lock)

    async def _expire(self, lock: str, hold: SessionHold) -> None:
        """Give back what nobody has renewed."""
        try:
            await self.free(hold)
        except FencelockError:
            pass  # its session is over, and the lock with it; else there is a next time

    async def _show_what_lasts(self, now: float) -> float:
        """Write about what is held for a while; return when to look again."""
        lasting: list[SessionHold] = []
        again = NEVER
        for hold in list(self._all.values()):
            if hold.shown or hold.until <= now:
                continue
            if now - hold.taken_at >= SHOW_S:
                lasting.append(hold)
            else:
                again = min(again, hold.taken_at + SHOW_S)
        if lasting:
            await self._table.show(lasting)
        if not all(hold.shown or hold.over for hold in lasting):
            again = min(again, now + SHOW_S)
        return again
