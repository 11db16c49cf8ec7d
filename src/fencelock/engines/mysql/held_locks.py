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
from ..timer import NEVER, Timer
from .get_lock import GetLockSql, read_users
from .holder_table import SHOW_S, HolderTable
from .names import lock_name
from .settings import Settings
from .wire.session_pool import Hold, Session, SessionPool, idle_limit


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
        self._all: dict[str, Hold] = {}
        self.timer = Timer(world, self._free_what_has_run_out, "fencelock-holds")

    def __contains__(self, lock: str) -> bool:
        return lock in self._all

    def get(self, lock: str) -> Hold | None:
        return self._all.get(lock)

    def of(self, name: str, owner: str) -> Hold | None:
        """What an owner holds by a name."""
        hold = self._all.get(lock_name(name))
        if hold is None or hold.owner != owner:
            return None
        if hold.session.connection.is_closed:
            self.forget(hold)
            return None
        return hold

    def is_alive(self, hold: Hold) -> bool:
        """Whether a hold goes on, as far as is known here."""
        return not hold.session.connection.is_closed and hold.until > self._world.now()

    def holding(self, name: str) -> Holding | None:
        """Who of this client holds a name."""
        hold = self._all.get(lock_name(name))
        if hold is None or not self.is_alive(hold):
            return None
        now, meta = self._world.now(), json.loads(hold.meta)
        return Holding(name, hold.fence, hold.ttl, now - hold.since, hold.until - now, meta)

    def add(
        self, session: Session, request: Request, lock: str, fence: int, now: float, until: float
    ) -> None:
        """Remember that a session was given a lock, for whoever requested it."""
        hold = Hold(session, request.name, lock, request.owner, fence)
        hold.ttl, hold.meta, hold.since, hold.until = request.ttl, request.meta, now, until
        self._all[lock] = session.holds[lock] = hold
        self.timer.expect(min(now + SHOW_S, until))

    async def confirm(self, hold: Hold, ttl: float) -> float | None:
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
        batches: dict[Session, list[tuple[Hold, Grant]]] = {}
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
        self, session: Session, batch: Sequence[tuple[Hold, Grant]]
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

    async def free(self, hold: Hold) -> bool:
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

    async def _release(self, hold: Hold) -> bool:
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

    def forget(self, hold: Hold) -> None:
        """It is over."""
        hold.over = True
        hold.session.holds.pop(hold.lock, None)
        if self._all.get(hold.lock) is hold:
            del self._all[hold.lock]
        self._freed(hold.lock)

    async def _free_what_has_run_out(self) -> float:
        """Give back what has run out, and write about what lasts; return when to look again."""
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
            await self._table.show(lasting)
        due = min(
            (h.until if h.shown else min(h.until, h.since + SHOW_S) for h in holds), default=NEVER
        )
        return due if due > now else now + SHOW_S / 10
