"""Sessions that carry locks: whoever ends one, client or server, ends its locks.

The server ends a session that was idle for its ``wait_timeout``, which is set to the ttl of the
locks that it carries: a holder that froze or was cut off loses them in time, and no later. So locks
of different ttls do not share a session. As long as there are sessions without a lock, none is
shared at all: what goes wrong on one then harms nobody else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...errors import OutcomeUnknown, Unavailable
from ...wires.hangups import Hangups
from ...world import World
from .codec import Reply, ServerError
from .faults import refused
from .gate import Gate
from .link import IDLE_S, Link, hello
from .settings import Settings
from .wire import Wire

BRIEF_S = 0.03
FRESH_S = 0.5  # a session that was used so lately is not looked at before it is used again


def idle_limit(ttl: float) -> int:
    """The whole seconds after which the server may end a session that carries such a lock."""
    return max(1, math.ceil(ttl))


class Hold:
    """A lock that a session carries for an owner."""

    def __init__(self, session: Session, name: str, lock: str, owner: str, fence: int) -> None:
        self.session = session
        self.name = name
        self.lock = lock
        self.owner = owner
        self.fence = fence
        self.ttl = 0.0
        self.meta = "{}"
        self.since = 0.0
        self.until = 0.0
        self.shown = False
        """Whether the table of holders has a row about it."""
        self.over = False


class Session:
    """One connection of ours, with what it carries."""

    def __init__(self, world: World, link: Link, number: int, limit: int) -> None:
        self.link = link
        self.number = number
        self.limit = limit
        self.holds: dict[str, Hold] = {}
        self.gate = Gate(world)
        self.used_at = world.now()
        self.on_hangup: Callable[[], None] = lambda: None


class Room:
    """Room for one more session, which whoever has it connects."""


class Sessions:
    """The sessions of one client: all but one of its connections."""

    def __init__(
        self, world: World, settings: Settings, wire: Wire, ended: Callable[[Session], None]
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._ended = ended
        self._hangups: Hangups | None = None
        self.greeting = "DO 0"
        """What each session is told first."""
        self._most = max(1, settings.pool - 1)
        self._all: list[Session] = []
        self._coming = 0
        self._came = world.signal()
        """Set when one that was on its way is here, or is not coming."""
        self._mutex = world.mutex()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def reserve(self) -> Session | Room | None:
        """A session that carries nothing, or room for one, ours alone from now on; if any."""
        session = self._try_empty()
        if session is not None:
            return session
        return Room() if self._take_room(False) else None

    async def occupy(self, place: Session | Room) -> Session:
        """The session that was reserved."""
        return place if isinstance(place, Session) else await self._grow()

    async def lend(self, limit: int, spare: bool = False) -> Session:
        """A session for locks of this limit, ours alone until it is given back.

        A ``spare`` one carries nothing, and may be one more than the settings allow.
        """
        deadline = self._world.now() + self._settings.patience
        while True:
            if (session := self._try_empty()) is not None:
                return session
            came = self._came
            if self._take_room(spare):
                return await self._grow()
            fitting = [s for s in list(self._all) if not s.holds or s.limit == limit]
            if fitting:
                session = fitting[int(self._world.random() * len(fitting))]
                if not await session.gate.enter(deadline):
                    break
                if self._keep(session):
                    if not session.holds or session.limit == limit:
                        return session
                    session.gate.leave()
            elif not self._coming:  # all carry locks that last longer or shorter than this one
                self._take_room(True)
                return await self._grow()
            elif not await self._world.wait(came, deadline):
                break
        raise Unavailable(
            f"the sessions of {self._settings.where} were in use for "
            f"{self._settings.patience:g} s; nothing happened. Allow more with pool="
        )

    def _take_room(self, anyway: bool) -> bool:
        """Have room for one more session, if there is any."""
        with self._mutex:
            if not anyway and len(self._all) + self._coming >= self._most:
                return False
            self._coming += 1
            return True

    def _try_empty(self) -> Session | None:
        """A session that carries nothing and that nobody uses."""
        for session in list(self._all):
            if not session.holds and session.gate.try_enter():
                if self._keep(session) and not session.holds:
                    return session
                if session in self._all:
                    session.gate.leave()
        return None

    def _keep(self, session: Session) -> bool:
        """Whether a session that was entered can be used; one that is over is dropped."""
        fresh = self._world.now() - session.used_at < FRESH_S
        over = session.link.is_over if fresh else session.link.has_ended()
        if session in self._all and not over:
            return True
        self.drop(session)
        session.gate.leave()
        return False

    async def enter(self, session: Session, within: float) -> bool:
        """Have this session alone; False when it is over."""
        if not await session.gate.enter(self._world.now() + within):
            raise Unavailable(
                f"a session of {self._settings.where} was in use for {within:g} s; nothing happened"
            )
        if session in self._all:
            return True
        session.gate.leave()
        return False

    async def _grow(self) -> Session:
        """Connect, in the room that was taken for it."""
        try:
            if self._closed:
                raise Unavailable("the client is closed")
            return await self._connect()
        finally:
            with self._mutex:
                self._coming -= 1
                came, self._came = self._came, self._world.signal()
            came.set()

    async def _connect(self) -> Session:
        link = await self._wire.dial(self._settings, hello(self._settings, IDLE_S))
        try:
            greeting = f"{self.greeting};SELECT CONNECTION_ID()"
            replies = await link.ask(greeting, self._settings.patience)
        except ServerError as error:
            link.close()
            raise refused(error, self._settings.where) from error
        number = int(replies[-1].rows[0][0] or 0)
        session = Session(self._world, link, number, 0)
        session.gate.try_enter()
        self._all.append(session)
        session.on_hangup = lambda: self._hang_up(session)
        if self._hangups is None:
            self._hangups = self._wire.hangups()
        self._hangups.watch(link.socket, session.on_hangup)
        return session

    def _hang_up(self, session: Session) -> None:
        """The server has ended a session. Whoever is using it just now finds that out, too."""
        if session.gate.try_enter():
            self.drop(session)
            session.gate.leave()
            return
        with self._mutex:
            if session in self._all:
                self._all.remove(session)
        self._ended(session)

    def give_back(self, session: Session) -> None:
        """Let others use a session."""
        session.used_at = self._world.now()
        session.gate.leave()

    async def ask(
        self,
        session: Session,
        sql: str,
        limit: int = 0,
        blocks: float = 0.0,
        relied_on: bool = True,
    ) -> list[Reply]:
        """Ask a session that was lent; ``limit`` is what it must be set to.

        ``blocks`` is how long the statement itself may wait in the server.

        A session that others rely on is waited for as long as their locks last: to give it up would
        end them.
        """
        if limit and limit != session.limit:
            sql = f"SET SESSION wait_timeout={limit};{sql}"
        within = self._settings.patience
        if relied_on and session.holds and session.limit > within:
            within = session.limit
        within += max(blocks, BRIEF_S)  # most are alike: to change it is a call of the kernel
        try:
            replies = await session.link.ask(sql, within)
        except ServerError as error:
            raise refused(error, self._settings.where) from error
        except (OutcomeUnknown, Unavailable):
            self.drop(session)
            raise
        if limit and limit != session.limit:
            session.limit = limit
            return replies[1:]
        return replies

    def drop(self, session: Session) -> None:
        """A session is over, and so are its locks."""
        with self._mutex:
            if session in self._all:
                self._all.remove(session)
        if self._hangups is not None:
            self._hangups.forget(session.on_hangup)
        session.link.close()
        self._ended(session)

    def close(self) -> None:
        """End all sessions."""
        self._closed = True
        for session in list(self._all):
            self.drop(session)
        self.abandon()

    def abandon(self) -> None:
        """Listen no more for the ends of sessions."""
        if self._hangups is not None:
            self._hangups.close()
