"""The sessions of one client: a few that many locks share, and some for who has to wait.

The server ends a session that is idle for as long as its shortest lease, and a second. That limit
is set anew whenever it becomes another one, along with what is sent anyway.
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
from .wire import Session, Wire

GRACE_S = 1.0  # the server ends an idle session so much later than its shortest lease
UNKNOWN = ""  # a limit that is set by the next statement, whatever it is
REST_S = 0.5  # after so long with nothing held, a session may be idle for as long as it likes
SPARE_MAX = 4  # sessions that are kept for the next who have to wait


class SessionPool:
    """Opens sessions, hands them out, and knows how long each may be idle."""

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
        """Told when ``rest`` is to be called."""

    async def open(self) -> None:
        """Open the first one; refuse a pooler that would not leave it ours."""
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
        """See whether two connections of ours are one session, or one is two."""
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
        """A session for locks that are not waited for."""
        for session in list(self._shared):
            if not session.dead:
                return session
            self._shared.remove(session)
        session = await self._begin()
        self._shared.append(session)
        return session

    async def own(self) -> Session:
        """A session for somebody who has to wait."""
        while self._spare:
            session = self._spare.pop()
            if not session.dead:
                return session
        return await self._begin()

    def put_back(self, session: Session) -> None:
        """Nothing is held by it any more."""
        if session in self._shared:
            return
        if len(self._spare) < SPARE_MAX and not session.dead:
            self._spare.append(session)
        else:
            session.drop()

    def limit(self, session: Session, *ttls: float) -> str:
        """How long the server lets a session be idle, in milliseconds; 0 is for ever."""
        shortest = min([*session.ttls, *ttls], default=None)
        return "0" if shortest is None else f"{(shortest + GRACE_S) * 1000:.0f}"

    def try_lock(self, session: Session, key: int, ttl: float) -> Awaitable[Rows]:
        """Take a lock if it is free; the limit of its session is set only if it is another one."""
        limit = self.limit(session, ttl)
        if limit == session.limit:
            return session.execute(self._sql.try_lock, key)
        return self._set_limit(session, limit, self._sql.try_lock_limited, key, limit)

    def unlock(self, session: Session, owner: str, hold: Hold[Session]) -> Awaitable[Rows]:
        """Give a lock back. A session by which nothing is held now keeps its limit for a while."""
        limit = self.limit(session) if session.ttls else session.limit or "0"
        if not session.ttls and self._rest_at == NEVER:  # nobody holds by it now
            self._rest_at = self._world.now() + REST_S
            self.expect(self._rest_at)
        if hold.shown:
            shown = (hold.key, limit, hold.name, owner)
            return self._set_limit(session, limit, self._sql.unlock_shown, *shown)
        if limit != session.limit:
            return self._set_limit(session, limit, self._sql.unlock_limited, hold.key, limit)
        return session.execute(self._sql.unlock, hold.key)

    async def unlock_all(self, session: Session) -> None:
        """Give back what a session may have got whose wait was called off.

        The server can let it in at that very moment. An advisory lock of a session outlives the
        error that its statement then ends with.
        """
        try:
            await session.execute(self._sql.unlock_all)
        except FencelockError:
            session.drop()

    def renew(self, session: Session, columns: list[list[object]]) -> Awaitable[Rows]:
        """Show the server that a session is alive, and how long it may be idle from now on."""
        limit = self.limit(session)
        return self._set_limit(session, limit, self._sql.renew, *columns, limit)

    async def _set_limit(
        self, session: Session, limit: str, statement: Statement, *values: object
    ) -> Rows:
        """Run a statement that sets a limit; it is known again once that was answered.

        Of two that are under way at once nobody knows which the server ran last, and of a try
        that got nothing it took no limit: then the next statement sets it again.
        """
        alone, session.limits_sent = not session.limits_sent, session.limits_sent + 1
        session.limit = UNKNOWN
        try:
            rows = await session.execute(statement, *values)
        finally:
            session.limits_sent -= 1
        if alone and not session.limits_sent and rows and rows[0][0] is not None:
            session.limit = limit
        return rows

    async def rest(self, now: float) -> float:
        """Let sessions be idle for ever by which nothing is held; return when to call again."""
        if now >= self._rest_at:
            self._rest_at = NEVER
            await self._reset_idle_timeouts()
        return self._rest_at

    async def _reset_idle_timeouts(self) -> None:
        for session in list(self._shared):
            await self._reset_idle_timeout(session)
        spare, self._spare = self._spare, []  # nobody may begin to wait on one meanwhile
        for session in spare:
            await self._reset_idle_timeout(session)
            self.put_back(session)

    async def _reset_idle_timeout(self, session: Session) -> None:
        if not session.ttls and session.limit != "0" and not session.dead:
            limit = self.limit(session)
            try:
                await self._set_limit(session, limit, self._sql.limit, limit)
            except FencelockError:
                pass  # it will be found dead

    def close(self) -> None:
        for session in [*self._shared, *self._spare]:
            session.drop()
