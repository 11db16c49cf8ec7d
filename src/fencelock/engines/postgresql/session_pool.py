"""The sessions of one client: a few that many locks share, and some for requests that must wait.

The server ends a session that is idle for the ttl of its shortest lease and a second. Whenever that
limit changes, it is set along with a statement that is sent anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import EngineError, FencelockError, Misconfigured
from ...world import World
from .._sql.hold import Hold
from ..timer import NEVER
from .rows import Rows, integer
from .settings import Settings
from .statements import Statement, Statements
from .wire import Session, Undo, Wire

GRACE_S = 1.0  # the server ends an idle session so much later than its shortest lease
UNKNOWN = ""  # the limit is not known: the next statement sets it
REST_S = 0.5  # after so long without a lock, a session's idle limit is lifted
SPARE_MAX = 4  # sessions that are kept for the next requests that must wait


class SessionPool:
    """The sessions of one client, and how long each may be idle."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        settings: Settings,
        sql: Statements,
        ended: Callable[[Session], None],
    ) -> None:
        self._world = world
        self._wire = wire
        self._settings = settings
        self._sql = sql
        self._ended = ended
        self._shared: list[Session] = []
        self._spare: list[Session] = []
        self._rest_at = NEVER
        self.expect: Callable[[float], None] = lambda at: None
        """Called with the time at which ``rest`` is to be called."""

    async def open(self) -> None:
        """Open the first session; refuse a pooler that shares server sessions among clients."""
        first = await self._begin()
        if not self._wire.direct:
            await self._refuse_a_pooler(first)
        self._shared.append(first)

    async def _begin(self) -> Session:
        session = await self._wire.session()
        session.on_end(lambda: self._ended(session))
        try:
            session.pid = integer((await session.execute(self._sql.begin))[0][0])
        except BaseException as error:
            session.drop()
            if type(error) is EngineError:
                text = f"mode=advisory needs PostgreSQL 14 or newer: {error}"
                raise Misconfigured(text) from error
            raise
        return session

    async def _refuse_a_pooler(self, first: Session) -> None:
        """Raise if two connections share a server session, or one changes its session."""
        second = await self._begin()
        again = integer((await first.execute(self._sql.begin))[0][0])
        second.drop()
        if second.pid == first.pid or again != first.pid:
            first.drop()
            raise Misconfigured(
                f"{self._settings.where} is a pooler that gives every transaction another session, "
                "so an advisory lock would be anybody's: use mode=lease, which works through it, "
                "or connect to the server itself"
            )

    async def shared(self) -> Session:
        """Return a shared session, for locks that are not waited for."""
        for session in list(self._shared):
            if not session.dead:
                return session
            self._shared.remove(session)
        session = await self._begin()
        self._shared.append(session)
        return session

    async def own(self) -> Session:
        """Return a session of its own for a request that must wait."""
        while self._spare:
            session = self._spare.pop()
            if not session.dead:
                return session
        return await self._begin()

    def put_back(self, session: Session) -> None:
        """Keep a session that holds no lock any more, or end it if enough are kept."""
        if session in self._shared:
            return
        if len(self._spare) < SPARE_MAX and not session.dead:
            self._spare.append(session)
        else:
            session.drop()

    def limit(self, session: Session, *ttls: float) -> str:
        """Return how long a session may be idle, in milliseconds as text; "0" is without limit."""
        shortest = min([*session.ttls, *ttls], default=None)
        return "0" if shortest is None else f"{(shortest + GRACE_S) * 1000:.0f}"

    def try_lock(self, session: Session, key: int, ttl: float) -> Awaitable[Rows]:
        """Take a lock if it is free; set the idle limit of its session only if it changes.

        The session would keep a lock whose fence was refused. No other owner of this client has
        this key on that session, so unlocking it takes nothing from anybody.
        """
        limit, undo = self.limit(session, ttl), (self._sql.unlock, key)
        if limit == session.limit:
            return session.execute(self._sql.try_lock, key, undo=undo)
        return self._set_limit(session, limit, self._sql.try_lock_limited, key, limit, undo=undo)

    def unlock(self, session: Session, owner: str, hold: Hold[Session]) -> Awaitable[Rows]:
        """Unlock. A session without any other lock keeps its idle limit for a while."""
        limit = self.limit(session) if session.ttls else session.limit or "0"
        if not session.ttls and self._rest_at == NEVER:  # it was the last lock
            self._rest_at = self._world.now() + REST_S
            self.expect(self._rest_at)
        if hold.shown:
            shown = (hold.key, limit, hold.name, owner)
            return self._set_limit(session, limit, self._sql.unlock_shown, *shown)
        if limit != session.limit:
            return self._set_limit(session, limit, self._sql.unlock_limited, hold.key, limit)
        return session.execute(self._sql.unlock, hold.key)

    async def unlock_all(self, session: Session) -> None:
        """Unlock what a session may have been granted although its wait was cancelled.

        The server can grant the lock at that very moment. A session's advisory lock outlives the
        error with which its statement then ends.
        """
        try:
            await session.execute(self._sql.unlock_all)
        except FencelockError:
            session.drop()

    def renew(self, session: Session, columns: list[list[object]]) -> Awaitable[Rows]:
        """Show the server that a session is alive, write its holders, and set its idle limit."""
        limit = self.limit(session)
        return self._set_limit(session, limit, self._sql.renew, *columns, limit)

    async def _set_limit(
        self,
        session: Session,
        limit: str,
        statement: Statement,
        *values: object,
        undo: Undo | None = None,
    ) -> Rows:
        """Run a statement that sets the idle limit, which is known once the reply has come.

        Of two that are under way at once it is not known which the server ran last, and a
        ``try_lock`` that gets no lock sets no limit: then the next statement sets it again.
        """
        alone, session.limits_sent = not session.limits_sent, session.limits_sent + 1
        session.limit = UNKNOWN
        try:
            rows = await session.execute(statement, *values, undo=undo)
        finally:
            session.limits_sent -= 1
        if alone and not session.limits_sent and rows and rows[0][0] is not None:
            session.limit = limit
        return rows

    async def rest(self, now: float) -> float:
        """Lift the idle limit of sessions that hold no lock; return when to call this again."""
        if now >= self._rest_at:
            self._rest_at = NEVER
            await self._reset_idle_timeouts()
        return self._rest_at

    async def _reset_idle_timeouts(self) -> None:
        for session in list(self._shared):
            await self._reset_idle_timeout(session)
        spare, self._spare = self._spare, []  # no request may begin to wait on one meanwhile
        for session in spare:
            await self._reset_idle_timeout(session)
            self.put_back(session)

    async def _reset_idle_timeout(self, session: Session) -> None:
        if not session.ttls and session.limit != "0" and not session.dead:
            limit = self.limit(session)
            try:
                await self._set_limit(session, limit, self._sql.limit, limit)
            except FencelockError:
                pass  # its next use finds it dead

    def close(self) -> None:
        for session in [*self._shared, *self._spare]:
            session.drop()
