"""Asking the server for locks: alone, or with others of this client in one packet.

For each lock one of this client asks at a time: the server would give it twice to one session.
Whatever the server gave is noted before anybody is told, so that a caller that was cancelled
meanwhile can give it back; and where it is not known what was given, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn
from weakref import WeakValueDictionary

from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Grant, Request, granted
from ...world import Signal, World
from .get_lock import GetLock, is_interrupted, release_sql
from .held_locks import Holds
from .shared_packets import Round, Rounds
from .wire.session_pool import Lent, Room, Session, Sessions, idle_limit

SETTLE_S = 5.0
MANY = 32  # in one packet: more would end together if their session did


class Ask:
    """One who asks for a lock."""

    __slots__ = ("__weakref__", "at", "done", "error", "fence", "lock", "request", "shared")

    def __init__(self, request: Request, lock: str, done: Signal) -> None:
        self.request = request
        self.lock = lock
        self.done = done
        """Set when it is known what came of it."""
        self.error: Exception | None = None
        self.fence = 0
        """What came of it: 0 for a no."""
        self.at = 0.0
        """When the server was asked."""
        self.shared: Round[Ask] | None = None

    def grant(self) -> Grant | None:
        if not self.fence:
            return None
        name, owner, ttl, *_ = self.request
        return granted(name, owner, self.fence, ttl, self.at)


class Asks:
    """What one client asks the server for just now."""

    def __init__(self, world: World, sessions: Sessions, holds: Holds) -> None:
        self._world = world
        self._sessions = sessions
        self._holds = holds
        self._all: WeakValueDictionary[str, Ask] = WeakValueDictionary()
        """By lock; one whose caller was ended by a signal handler is known to nobody."""
        self._rounds: Rounds[int, Ask] = Rounds(world, self._ask_together, MANY)
        self._mutex = world.mutex()
        self.get_lock: GetLock
        """The words for the server, once it is known which it is."""

    def begin(self, lock: str, request: Request) -> Ask | None:
        """Be the one who asks for a lock; None when another of this client does, or has it."""
        with self._mutex:
            if lock in self._all or lock in self._holds:
                return None
            ask = self._all[lock] = Ask(request, lock, self._world.signal())
            return ask

    def end(self, lock: str) -> None:
        self._all.pop(lock, None)

    async def take(self, request: Request, lock: str, wait: float) -> Grant | None:
        """Ask for a lock and wait so long in the server's queue.

        None is a no, or that another of this client asks for it just now.
        """
        ask = self.begin(lock, request)
        if ask is None:
            return None
        place = self._sessions.reserve()
        if not wait and place is None:
            limit = idle_limit(request.ttl)
            ask.shared, leads = self._rounds.join(limit, ask)
            await self._rounds.end(limit, ask.shared, leads)
        elif self._world.cancels:
            # To the end even if the caller is cancelled: what the server gave is not forgotten.
            self._world.spawn(self._ask_beside(ask, wait, place), "fencelock-ask")
            await self._world.wait(ask.done, None)
            if ask.error is not None:
                raise ask.error
        else:
            await self._ask_alone(ask, wait, place)
        return ask.grant()

    async def settled(self, lock: str, owner: str) -> None:
        """Wait until it is known what became of an ask whose caller has left."""
        ask = self._all.get(lock)
        if ask is None or ask.request.owner != owner:
            return
        done = ask.done if ask.shared is None else ask.shared.done
        if not await self._world.wait(done, self._world.now() + SETTLE_S):
            raise OutcomeUnknown(f"{ask.request.name!r} is still being asked for")

    async def _ask_beside(self, ask: Ask, wait: float, place: Lent | Room | None) -> None:
        try:
            await self._ask_alone(ask, wait, place)
        except Exception as error:
            ask.error = error

    async def _ask_alone(self, ask: Ask, wait: float, place: Lent | Room | None) -> None:
        lock, limit, known = ask.lock, idle_limit(ask.request.ttl), False
        try:
            if place is None:
                lent = await self._sessions.lend(limit)
            else:
                lent = await self._sessions.occupy(place)
            ask.at = self._world.now()
            try:
                ask.fence = await self.ask(lent.session, lock, limit, wait)
                if ask.fence:
                    self._note(lent.session, ask)
                known = True
            except FencelockError:
                known = True
                raise
            finally:
                if not known:  # a signal handler has raised: it may carry what nobody knows of
                    self._sessions.drop(lent.session)
                self._sessions.give_back(lent)
        finally:
            self._all.pop(lock, None)
            ask.done.set()

    async def _ask_together(self, limit: int, shared: Round[Ask]) -> None:
        known = False
        try:
            lent = await self._sessions.lend(limit)
            session = lent.session
            try:
                asks = self._rounds.close(limit, shared)
                at = self._world.now()
                fences = await self._ask_for_all(session, [ask.lock for ask in asks], limit)
                for ask, fence in zip(asks, fences, strict=True):
                    ask.at, ask.fence = at, fence
                    if fence:
                        self._note(session, ask)
                known = True
            except FencelockError:
                known = True
                raise
            finally:
                if not known:
                    self._sessions.drop(session)
                self._sessions.give_back(lent)
        finally:
            for ask in self._rounds.close(limit, shared):
                self.end(ask.lock)

    def _note(self, session: Session, ask: Ask) -> None:
        until = ask.at + ask.request.ttl
        self._holds.note(session, ask.request, ask.lock, ask.fence, ask.at, until)

    async def ask(self, session: Session, lock: str, limit: int, wait: float) -> int:
        """Have the server give a lock to a session: the fence, or 0 when it did not."""
        sql = self.get_lock.sql(lock, wait)
        try:
            replies = await self._sessions.ask(session, sql, limit, wait)
        except EngineError as error:
            await self.let_go(session, [lock])
            if is_interrupted(error):
                return 0
            raise
        fence = self.get_lock.fence(replies)
        if fence is None:
            self._begin_anew(session)
        return fence

    async def _ask_for_all(self, session: Session, locks: list[str], limit: int) -> Sequence[int]:
        """The same for several, without waiting for any."""
        if len(locks) == 1:
            return [await self.ask(session, locks[0], limit, 0)]
        try:
            replies = await self._sessions.ask(session, self.get_lock.sql_for_all(locks), limit)
        except EngineError as error:
            await self.let_go(session, locks)
            if is_interrupted(error):
                return [0] * len(locks)
            raise
        fences = self.get_lock.fences(replies, len(locks))
        if fences is None or len(fences) != len(locks):
            self._begin_anew(session)
        return fences

    def _begin_anew(self, session: Session) -> NoReturn:
        """Somebody has emptied the table of fences: end what was given without one."""
        self._sessions.drop(session)
        raise Unavailable("the counter of fences had lost its row; nothing is held. Try again")

    async def let_go(self, session: Session, locks: Sequence[str]) -> None:
        """Nobody wants them, or what failed may have failed after they were given."""
        if session.link.is_over:
            return
        if not session.holds:
            session.limit = 0  # it may have been set, or not
        try:
            await self._sessions.ask(session, release_sql(locks))
        except EngineError:
            self._sessions.drop(session)
