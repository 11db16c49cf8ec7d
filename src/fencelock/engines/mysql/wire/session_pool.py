"""Sessions that carry locks: whoever ends one, client or server, ends its locks.

The server ends a session that was idle for its ``wait_timeout``, which is set to the ttl of the
locks that it carries: a holder that froze or was cut off loses them in time, and no later. So locks
of different ttls do not share a session. As long as there are sessions without a lock, none is
shared at all: what goes wrong on one then harms nobody else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakSet

from ....errors import OutcomeUnknown, Unavailable
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..errors import refused
from ..fair_mutex import Gate, Turn
from ..settings import Settings
from .codec import Reply, ServerError
from .connection import IDLE_S, Link, Wire, hello

BRIEF_S = 0.03
LOOK_S = 0.1  # how often who waits for a session looks whether the room for one was lost
FRESH_S = 0.5  # a session that was used so lately is not looked at before it is used again


def badge(session: object) -> str:
    """The lock by which a session of ours is known: whoever has it is no stranger."""
    return f"CONCAT('fencelock:session:',{session})"


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

    __slots__ = ("__weakref__",)


class Lent(NamedTuple):
    """A session, and the turn on it: nobody else uses it for as long as somebody knows this."""

    session: Session
    turn: Turn


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
        self._coming: WeakSet[Room] = WeakSet()
        self._came = world.signal()
        """Set when one that was on its way is here, or is not coming."""
        self._mutex = world.mutex()
        self.doubts: set[str] = set()
        """Sessions that were given up, and may still have their locks: see ``Pool.settle``."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def reserve(self) -> Lent | Room | None:
        """A session that carries nothing, or room for one, ours alone from now on; if any."""
        return self._try_empty() or self._take_room(False)

    async def occupy(self, place: Lent | Room) -> Lent:
        """The session that was reserved."""
        return place if isinstance(place, Lent) else await self._grow(place)

    async def lend(self, limit: int, spare: bool = False) -> Lent:
        """A session for locks of this limit, ours alone until it is given back.

        A ``spare`` one carries nothing, and may be one more than the settings allow.
        """
        deadline = self._world.now() + self._settings.request_timeout
        while True:
            if (lent := self._try_empty()) is not None:
                return lent
            came = self._came
            if (room := self._take_room(spare)) is not None:
                return await self._grow(room)
            fitting = [s for s in list(self._all) if not s.holds or s.limit == limit]
            if fitting:
                session = fitting[int(self._world.random() * len(fitting))]
                if (turn := await session.gate.enter(deadline)) is None:
                    break
                if self._keep(session, turn):
                    if not session.holds or session.limit == limit:
                        return Lent(session, turn)
                    session.gate.leave(turn)
            elif not self._coming:  # all carry locks that last longer or shorter than this one
                return await self._grow(self._take_room(True) or Room())
            elif self._world.now() >= min(deadline, self._world.limit()):
                break
            else:
                await self._world.wait(came, min(deadline, self._world.now() + LOOK_S))
        raise Unavailable(
            f"the sessions of {self._settings.where} were in use for "
            f"{self._settings.request_timeout:g} s; nothing happened. Allow more with pool="
        )

    def _take_room(self, anyway: bool) -> Room | None:
        """Have room for one more session, if there is any."""
        with self._mutex:
            if not anyway and len(self._all) + len(self._coming) >= self._most:
                return None
            room = Room()
            self._coming.add(room)
            return room

    def _try_empty(self) -> Lent | None:
        """A session that carries nothing and that nobody uses."""
        for session in list(self._all):
            if not session.holds and (turn := session.gate.try_enter()) is not None:
                if self._keep(session, turn) and not session.holds:
                    return Lent(session, turn)
                session.gate.leave(turn)
        return None

    def _keep(self, session: Session, turn: Turn) -> bool:
        """Whether a session that was entered can be used; one that is over is dropped."""
        fresh = self._world.now() - session.used_at < FRESH_S
        given_up = session.link.is_over
        if session in self._all and not given_up and (fresh or not session.link.has_ended()):
            return True
        self.drop(session, given_up)
        session.gate.leave(turn)
        return False

    async def enter(self, session: Session, within: float) -> Lent | None:
        """Have this session alone; None when it is over."""
        turn = await session.gate.enter(self._world.now() + within)
        if turn is None:
            raise Unavailable(
                f"a session of {self._settings.where} was in use for {within:g} s; nothing happened"
            )
        if session in self._all:
            return Lent(session, turn)
        session.gate.leave(turn)
        return None

    def try_enter(self, session: Session) -> Lent | None:
        """The same at once; None when another has it."""
        turn = session.gate.try_enter()
        return None if turn is None else Lent(session, turn)

    async def _grow(self, room: Room) -> Lent:
        """Connect, in the room that was taken for it."""
        try:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            return await self._connect()
        finally:
            with self._mutex:
                self._coming.discard(room)
                came, self._came = self._came, self._world.signal()
            came.set()

    async def _connect(self) -> Lent:
        link = await self._wire.dial(self._world, self._settings, hello(self._settings, IDLE_S))
        try:
            greeting = f"{self.greeting};SELECT CONNECTION_ID()"
            replies = await link.ask(greeting, self._settings.request_timeout)
        except ServerError as error:
            link.close()
            raise refused(error, self._settings.where) from error
        except BaseException:
            link.close()
            raise
        number = int(replies[-1].rows[0][0] or 0)
        session = Session(self._world, link, number, 0)
        turn = session.gate.try_enter()
        assert turn is not None
        self._all.append(session)
        session.on_hangup = lambda: self._hang_up(session)
        if self._hangups is None:
            self._hangups = self._wire.hangups()
        self._hangups.watch(link.socket, session.on_hangup)
        return Lent(session, turn)

    def _hang_up(self, session: Session) -> None:
        """A session has ended: the server's doing, unless we have given it up ourselves.

        Whoever is using it just now finds that out, too.
        """
        given_up = session.link.is_over
        if (turn := session.gate.try_enter()) is not None:
            self.drop(session, given_up)
            session.gate.leave(turn)
            return
        self._remove(session, given_up)
        self._ended(session)

    def _remove(self, session: Session, given_up: bool) -> None:
        with self._mutex:
            if session in self._all:
                self._all.remove(session)
                if given_up:
                    self.doubts.add(badge(session.number))

    def give_back(self, lent: Lent) -> None:
        """Let others use a session."""
        lent.session.used_at = self._world.now()
        lent.session.gate.leave(lent.turn)

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
        within = self._settings.request_timeout
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

    def drop(self, session: Session, given_up: bool = True) -> None:
        """A session is over, and so are its locks; for the server, once it has seen that."""
        self._remove(session, given_up)
        if self._hangups is not None:
            self._hangups.forget(session.on_hangup)
        session.link.close()
        self._ended(session)

    def close(self) -> None:
        """End all sessions."""
        self._closed = True
        for session in list(self._all):
            self.drop(session, False)
        self.close_nowait()

    def close_nowait(self) -> None:
        """Listen no more for the ends of sessions."""
        if self._hangups is not None:
            self._hangups.close()
