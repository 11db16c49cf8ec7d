"""Sessions that hold locks: the end of a session, by client or server, ends its locks.

The server ends a session that was idle for its ``wait_timeout``, which is set to the ttl of the
session's locks: a holder that froze or was cut off loses them in time, and no later. So locks of
different ttls do not share a session. As long as there are sessions without a lock, none is shared
at all: an error on one then harms no other owner.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ....errors import FencelockError, OutcomeUnknown, Unavailable
from ....model import Request
from ....wires.disconnect_monitor import Hangups
from ....wires.live_set import LiveSet, Slot
from ....world import World
from ..._sql.hold import Hold
from ..errors import refused
from ..fair_mutex import FairMutex, Permit
from ..get_lock import GetLockSql, identity_lock
from ..settings import Settings
from .codec import Reply, ServerError
from .connection import Connection, Wire

BRIEF_S = 0.03
CHECK_S = 0.1  # how often a caller that waits for a session checks whether a slot was lost
FRESH_S = 0.5  # a session that was used so lately is not checked before it is used again


def idle_limit(ttl: float) -> int:
    """Return the ``wait_timeout`` of a session with a lock of this ttl, in whole seconds."""
    return max(1, math.ceil(ttl))


class SessionHold(Hold["Session"]):
    """A lock that a session holds for an owner; ``lock`` is its name on the server."""

    __slots__ = ("lock", "over", "owner")

    def __init__(
        self, request: Request, lock: str, session: Session, fence: int, asked_at: float
    ) -> None:
        super().__init__(request, 0, session, fence, asked_at)
        self.lock = lock
        self.owner = request.owner
        self.over = False


class Session:
    """A connection of ours, and the locks that it holds."""

    def __init__(self, world: World, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.limit = 0
        """The ``wait_timeout`` that it was set to; 0 if unknown."""
        self.limit_to_be = 0
        """The ``wait_timeout`` that the last request has asked for; 0 if it left that alone."""
        self.answer_by = 0.0
        """When the session is dropped unless the last request was answered."""
        self.holds: dict[str, SessionHold] = {}
        self.mutex = FairMutex(world)
        self.used_at = world.now()
        self.on_disconnect: Callable[[], None] = lambda: None


class LentSession(NamedTuple):
    """A session and its permit: no other caller uses it while a reference to this exists."""

    session: Session
    turn: Permit


class SessionPool:
    """The sessions of one client: all but one of its connections."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        wire: Wire,
        sql: GetLockSql,
        ended: Callable[[Session], None],
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._sql = sql
        self._ended = ended
        self._monitor: Hangups | None = None
        self._most = max(1, settings.pool - 1)
        self._all: list[Session] = []
        self._connecting = LiveSet()
        self._connected = world.signal()
        """Set when an attempt to connect has ended."""
        self._mutex = world.mutex()
        self.abandoned: set[str] = set()
        """Dropped sessions, by identity lock, that may still have locks: ``Pool.end_abandoned``."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    async def lend(self, limit: int, spare: bool = False) -> LentSession:
        """Lend a session for locks of this limit, exclusively until it is given back.

        A ``spare`` one has no lock, and may be one more than the settings allow.
        """
        deadline = self._world.now() + self._settings.request_timeout
        while True:
            if (lent := self._try_empty()) is not None:
                return lent
            connected = self._connected
            if (slot := self._take_slot(spare)) is not None:
                return await self._connect_in(slot)
            fitting = [s for s in list(self._all) if not s.holds or s.limit == limit]
            if fitting:
                session = fitting[int(self._world.random() * len(fitting))]
                if (turn := await session.mutex.acquire(deadline)) is None:
                    break
                if self._keep(session, turn):
                    if not session.holds or session.limit == limit:
                        return LentSession(session, turn)
                    session.mutex.release(turn)
            elif not self._connecting:  # all have locks with other limits
                return await self._connect_in(self._take_slot(True) or Slot())
            elif self._world.now() >= min(deadline, self._world.limit()):
                break
            else:
                await self._world.wait(connected, min(deadline, self._world.now() + CHECK_S))
        raise Unavailable(
            f"the sessions of {self._settings.where} were in use for "
            f"{self._settings.request_timeout:g} s; nothing happened. Allow more with pool="
        )

    def _take_slot(self, anyway: bool) -> Slot | None:
        """Take a slot for one more session, if there is any, or in any case if ``anyway``."""
        with self._mutex:
            if not anyway and len(self._all) + len(self._connecting) >= self._most:
                return None
            slot = Slot()
            self._connecting.add(slot)
            return slot

    def _try_empty(self) -> LentSession | None:
        """Lend a session without locks that no other caller uses, if there is one."""
        for session in list(self._all):
            if not session.holds and (turn := session.mutex.try_acquire()) is not None:
                if self._keep(session, turn) and not session.holds:
                    return LentSession(session, turn)
                session.mutex.release(turn)
        return None

    def _keep(self, session: Session, turn: Permit) -> bool:
        """Return whether a session that was locked can be used; drop one that has ended."""
        fresh = self._world.now() - session.used_at < FRESH_S
        given_up = session.connection.is_closed
        usable = fresh or not session.connection.closed_by_server()
        if session in self._all and not given_up and usable:
            return True
        self.drop(session, given_up)
        session.mutex.release(turn)
        return False

    async def lock(self, session: Session, timeout: float) -> LentSession | None:
        """Lend this session exclusively; None when it has ended."""
        turn = await session.mutex.acquire(self._world.now() + timeout)
        if turn is None:
            raise Unavailable(
                f"a session of {self._settings.where} was in use for {timeout:g} s; "
                "nothing happened"
            )
        if session in self._all:
            return LentSession(session, turn)
        session.mutex.release(turn)
        return None

    def try_lock(self, session: Session) -> LentSession | None:
        """Lend this session exclusively, without waiting; None when another caller uses it."""
        turn = session.mutex.try_acquire()
        return None if turn is None else LentSession(session, turn)

    def give_back(self, lent: LentSession) -> None:
        """Take back a session that was lent; first let a request that is under way finish."""
        if lent.session.connection.under_way:
            try:
                self._world.spawn(self._finish_and_release(lent), "fencelock-session")
                return
            except RuntimeError:  # no thread can be started, or the loop is closed
                self.drop(lent.session)
        self._release(lent)

    async def _finish_and_release(self, lent: LentSession) -> None:
        try:
            await self.finish(lent.session)
        except FencelockError:
            pass  # the caller was told that it is unknown
        finally:
            self._release(lent)

    def _release(self, lent: LentSession) -> None:
        lent.session.used_at = self._world.now()
        lent.session.mutex.release(lent.turn)

    async def _connect_in(self, slot: Slot) -> LentSession:
        """Connect, in the slot that was taken for it."""
        try:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            return await self._connect()
        finally:
            with self._mutex:
                self._connecting.discard(slot)
                connected, self._connected = self._connected, self._world.signal()
            connected.set()

    async def _connect(self) -> LentSession:
        connection = await self._wire.connect(self._world, self._settings)
        try:
            setup = self._sql.session_setup
            replies = await connection.query(setup, self._settings.request_timeout)
        except ServerError as error:
            connection.close()
            raise refused(error, self._settings.where) from error
        except BaseException:
            connection.close()
            raise
        session = Session(self._world, connection, int(replies[-1].rows[0][0] or 0))
        turn = session.mutex.try_acquire()
        assert turn is not None
        self._all.append(session)
        session.on_disconnect = lambda: self._disconnected(session)
        if self._monitor is None:
            self._monitor = self._wire.disconnect_monitor()
        self._monitor.watch(connection.socket, session.on_disconnect)
        return LentSession(session, turn)

    def _disconnected(self, session: Session) -> None:
        """Handle the end of a session: by the server, unless this client has closed it.

        A caller that is using it just now notices that, too.
        """
        given_up = session.connection.is_closed
        if (turn := session.mutex.try_acquire()) is not None:
            self.drop(session, given_up)
            session.mutex.release(turn)
            return
        self._remove(session, given_up)
        self._ended(session)

    def _remove(self, session: Session, given_up: bool) -> None:
        with self._mutex:
            if session in self._all:
                self._all.remove(session)
                if given_up:
                    self.abandoned.add(identity_lock(session.number))

    async def query(
        self,
        session: Session,
        sql: str,
        limit: int = 0,
        blocks: float = 0.0,
        relied_on: bool = True,
    ) -> list[Reply]:
        """Run statements on a session that was lent; ``limit`` is the ``wait_timeout`` to set.

        ``blocks`` is how long the statement itself may wait in the server.

        The timeout for a session that others rely on is as long as their locks last: to drop it
        would end them. So a caller whose own time is over before leaves its request under way, and
        whoever gives the session back has it finished.
        """
        session.limit_to_be = limit if limit != session.limit else 0
        if session.limit_to_be:
            sql = f"SET SESSION wait_timeout={limit};{sql}"
        timeout, keep = self._settings.request_timeout, relied_on and bool(session.holds)
        if keep and session.limit > timeout:
            timeout = session.limit
        timeout += max(blocks, BRIEF_S)  # mostly the same value: each change costs a system call
        session.answer_by = self._world.now() + timeout
        return await self._answer(session, session.connection.query(sql, timeout, keep))

    async def finish(self, session: Session) -> list[Reply]:
        """Await the response to a request that its caller has left under way."""
        left = max(session.answer_by - self._world.now(), BRIEF_S)
        return await self._answer(session, session.connection.finish(left))

    async def _answer(self, session: Session, response: Awaitable[list[Reply]]) -> list[Reply]:
        try:
            replies = await response
        except ServerError as error:
            raise refused(error, self._settings.where) from error
        except (OutcomeUnknown, Unavailable):
            if session.connection.is_closed:  # else nothing was sent, or it is under way
                self.drop(session)
            raise
        if session.limit_to_be:
            session.limit = session.limit_to_be
            return replies[1:]
        return replies

    def drop(self, session: Session, given_up: bool = True) -> None:
        """End a session and its locks; on the server they end once it notices the disconnect."""
        self._remove(session, given_up)
        if self._monitor is not None:
            self._monitor.forget(session.on_disconnect)
        session.connection.close()
        self._ended(session)

    def close(self) -> None:
        """End all sessions, and stop watching for their ends."""
        self._closed = True
        for session in list(self._all):
            self.drop(session, False)
        if self._monitor is not None:
            self._monitor.close()
