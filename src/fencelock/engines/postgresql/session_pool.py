"""The sessions of one client: a few that many locks share, and some for who has to wait.

The server ends a session that says nothing for as long as its shortest lease, and a second. That
limit is told anew whenever it becomes another one, along with what is said anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import EngineError, FencelockError, Misconfigured
from .modes import Session, Wire
from .settings import Settings
from .statements import SessionStatements, Statement
from .warden import Hold
from .wire.connection import Rows

GRACE_S = 1.0  # the server ends a silent session so much later than its shortest lease
UNKNOWN = ""  # a limit that is told with the next word, whatever it is
SPARE_MAX = 4  # sessions that are kept for the next who have to wait


class Sessions:
    """Opens sessions, hands them out, and knows how long each may be silent."""

    def __init__(
        self,
        wire: Wire,
        settings: Settings,
        say: SessionStatements,
        ended: Callable[[Session], None],
    ) -> None:
        self._wire = wire
        self._settings = settings
        self._say = say
        self._ended = ended
        self._shared: list[Session] = []
        self._spare: list[Session] = []

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
            session.pid = int((await session.ask(self._say.begin))[0][0] or 0)
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
        again = int((await first.ask(self._say.begin))[0][0] or 0)
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

    def done_with(self, session: Session) -> None:
        """Nothing is held by it any more."""
        if session in self._shared:
            return
        if len(self._spare) < SPARE_MAX and not session.dead:
            self._spare.append(session)
        else:
            session.drop()

    def limit(self, session: Session, *ttls: float) -> str:
        """How long the server lets a session be silent, in milliseconds; 0 is for ever."""
        shortest = min([*session.ttls, *ttls], default=None)
        return "0" if shortest is None else f"{(shortest + GRACE_S) * 1000:.0f}"

    def try_lock(self, session: Session, key: int, ttl: float) -> Awaitable[Rows]:
        """Take a lock if it is free; its session is told its limit only if that is another one."""
        limit = self.limit(session, ttl)
        if limit == session.limit:
            return session.ask(self._say.try_lock, key)
        return self._tell(session, limit, self._say.try_lock_limited, key, limit)

    def unlock(self, session: Session, owner: str, hold: Hold) -> Awaitable[Rows]:
        """Give a lock back. A session by which nothing is held now keeps its limit for a while."""
        limit = self.limit(session) if session.ttls else session.limit or "0"
        if hold.noted:
            noted = (limit, self._say.unlock_noted, [hold.name], [owner], hold.key, limit)
            return self._tell(session, *noted)
        if limit != session.limit:
            return self._tell(session, limit, self._say.unlock_limited, hold.key, limit)
        return session.ask(self._say.unlock, hold.key)

    def beat(
        self, session: Session, names: list[str], owners: list[str], ttls: list[float]
    ) -> Awaitable[Rows]:
        """Say that a session is alive, and how long it may be silent from now on."""
        limit = self.limit(session)
        return self._tell(session, limit, self._say.beat, names, owners, ttls, limit)

    async def _tell(
        self, session: Session, limit: str, statement: Statement, *values: object
    ) -> Rows:
        """Ask what tells the server a limit; it is known again once that was heard.

        Of two that are under way at once nobody knows which the server heard last, and of a try
        that got nothing it took no limit: then the next word tells it again.
        """
        alone, session.telling = not session.telling, session.telling + 1
        session.limit = UNKNOWN
        try:
            rows = await session.ask(statement, *values)
        finally:
            session.telling -= 1
        if alone and not session.telling and rows and rows[0][0] is not None:
            session.limit = limit
        return rows

    async def let_rest(self) -> None:
        """Let the server be patient with sessions by which nothing is held."""
        for session in list(self._shared):
            await self._rest(session)
        spare, self._spare = self._spare, []  # nobody may begin to wait on one meanwhile
        for session in spare:
            await self._rest(session)
            self.done_with(session)

    async def _rest(self, session: Session) -> None:
        if not session.ttls and session.limit != "0" and not session.dead:
            try:
                await self.beat(session, [], [], [])
            except FencelockError:
                pass  # it will be found dead

    def close(self) -> None:
        for session in [*self._shared, *self._spare]:
            session.drop()
