"""The registry of the locks that one client holds by ``GET_LOCK``: it extends and releases them.

The server grants a lock to a session and knows no owners. So only this registry knows which owner
holds which lock; a call that changes a hold has locked its session.
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
    """The locks of one client, by their names on the server."""

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
        """Called with the name of a lock that is no longer held."""
        self._all: dict[str, SessionHold] = {}
        self.expiry = HoldExpiry(world, self._all, self._expire, self._show_what_lasts)

    def __contains__(self, lock: str) -> bool:
        return lock in self._all

    def get(self, lock: str) -> SessionHold | None:
        return self._all.get(lock)

    def of(self, name: str, owner: str) -> SessionHold | None:
        """Return an owner's hold of a name, if its connection is open."""
        hold = self._all.get(lock_name(name))
        if hold is None or hold.owner != owner:
            return None
        if hold.session.connection.is_closed:
            self.forget(hold)
            return None
        return hold

    def is_alive(self, hold: SessionHold) -> bool:
        """Return whether a hold is still valid, as far as this client knows."""
        return not hold.session.connection.is_closed and hold.until > self._world.now()

    def holding(self, name: str) -> Holding | None:
        """Return the holder of a name, if it is one of this client."""
        hold = self._all.get(lock_name(name))
        if hold is None or not self.is_alive(hold):
            return None
        now, meta = self._world.now(), json.loads(hold.meta)
        return Holding(name, hold.fence, hold.ttl, now - hold.taken_at, hold.until - now, meta)

    def add(
        self, session: Session, request: Request, lock: str, fence: int, now: float, until: float
    ) -> None:
        """Register a lock that was granted to a session, for the owner of a request."""
        hold = SessionHold(request, lock, session, fence, now)
        hold.until = until
        self._all[lock] = session.holds[lock] = hold
        self.expiry.expect(min(now + SHOW_S, until))

    async def confirm(self, hold: SessionHold, ttl: float) -> float | None:
        """Confirm a hold on the server and extend it; return the time of that, or None if lost."""
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
        """Extend holds, one request per session, and update the rows of those that are shown."""
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
        """Show the server that a session is alive, and check that it still has its locks."""
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
        """Release a lock; False if it was lost or its lease was over."""
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
        """Release a lock on its session, which the caller has locked."""
        now, session = self._world.now(), hold.session
        if self._all.get(hold.lock) is not hold:
            return False
        sql = self._sql.release(hold.lock, hold.owner if hold.shown else "")
        try:
            await self._sessions.query(session, sql, relied_on=len(session.holds) > 1)
        finally:
            if session.connection.is_closed:
                self.forget(hold)
        self.forget(hold)  # the session is alive, so it had the lock until now
        return hold.until > now

    def forget(self, hold: SessionHold) -> None:
        """Remove a hold that is over."""
        hold.over = True
        hold.session.holds.pop(hold.lock, None)
        if self._all.get(hold.lock) is hold:
            del self._all[hold.lock]
        self._freed(hold.lock)

    async def _expire(self, lock: str, hold: SessionHold) -> None:
        """Release a hold that was not renewed."""
        try:
            await self.free(hold)
        except FencelockError:
            pass  # its session has ended, and the lock with it; else the timer tries again

    async def _show_what_lasts(self, now: float) -> float:
        """Write the rows of locks that are held for a while; return when to call this again."""
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
