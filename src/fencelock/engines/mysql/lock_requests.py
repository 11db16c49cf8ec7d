"""The requests for locks that are under way: one at a time for each lock of a client.

The server would grant a lock twice to one session. A grant is registered before the call returns,
so that a call that was cancelled meanwhile can release it; where it is not known whether the lock
was granted, it is released or its session is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable
from weakref import WeakValueDictionary

from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Grant, Request, granted
from ...world import Signal, World
from .get_lock import GetLockSql, is_interrupted
from .held_locks import HeldLocks
from .wire.codec import Reply, ServerError
from .wire.session_pool import LentSession, Session, SessionPool, idle_limit

SETTLE_S = 5.0


class LockRequest:
    """A request for a lock that is under way, and its outcome."""

    __slots__ = ("__weakref__", "at", "done", "error", "fence", "lock", "request")

    def __init__(self, request: Request, lock: str, done: Signal) -> None:
        self.request = request
        self.lock = lock
        self.done = done
        """Set when the outcome is known."""
        self.error: Exception | None = None
        self.fence = 0
        """The fence of the grant; 0 if there was none."""
        self.at = 0.0
        """When it was sent to the server."""

    def grant(self) -> Grant | None:
        if not self.fence:
            return None
        name, owner, ttl, *_ = self.request
        return granted(name, owner, self.fence, ttl, self.at)


class LockRequests:
    """The requests for locks that one client has under way."""

    def __init__(
        self, world: World, sessions: SessionPool, held: HeldLocks, sql: GetLockSql
    ) -> None:
        self._world = world
        self._sessions = sessions
        self._held = held
        self._sql = sql
        self._all: WeakValueDictionary[str, LockRequest] = WeakValueDictionary()
        """By lock; weak, so a request whose caller was ended by a signal handler drops out."""
        self._mutex = world.mutex()

    def begin(self, lock: str, request: Request) -> LockRequest | None:
        """Register a request for a lock; None when this client has the lock or requests it."""
        with self._mutex:
            if lock in self._all or lock in self._held:
                return None
            found = self._all[lock] = LockRequest(request, lock, self._world.signal())
            return found

    def end(self, one: LockRequest) -> None:
        """End a request: other callers may request the lock."""
        self._all.pop(one.lock, None)
        one.done.set()

    async def take(self, request: Request, lock: str, wait: float) -> Grant | None:
        """Request a lock and wait so many seconds in the server's queue.

        Return None when it was not granted, or when another caller of this client requests it.
        """
        one = self.begin(lock, request)
        if one is None:
            return None
        if self._world.cancels:
            # In a job that runs to its end even if the caller is cancelled: no grant is lost.
            self._world.spawn(self._take_beside(one, wait), "fencelock-request")
            await self._world.wait(one.done, None)
            error, one.error = one.error, None
            if error is not None:
                try:
                    raise error
                finally:  # its traceback has this frame: a cycle would keep a session alive
                    del error
        else:
            await self._take(one, wait)
        return one.grant()

    async def settled(self, lock: str, owner: str) -> None:
        """Wait until the outcome of a request whose caller has left is known."""
        one = self._all.get(lock)
        if one is None or one.request.owner != owner:
            return
        if not await self._world.wait(one.done, self._world.now() + SETTLE_S):
            raise OutcomeUnknown(f"{one.request.name!r} is still being asked for")

    async def _take_beside(self, one: LockRequest, wait: float) -> None:
        try:
            await self._take(one, wait)
        except Exception as error:
            one.error = error.with_traceback(None)  # its frames refer to ``one``: a cycle

    async def _take(self, one: LockRequest, wait: float) -> None:
        limit, known, goes_on = idle_limit(one.request.ttl), False, False
        try:
            lent = await self._sessions.lend(limit)
            one.at = self._world.now()
            try:
                fence = await self.get_lock(lent.session, one.lock, limit, wait)
                self._register(one, lent.session, fence)
                known = True
            except FencelockError as error:
                goes_on = isinstance(error, OutcomeUnknown) and self._go_on(one, lent)
                known = True
                raise
            finally:
                if not known:  # a signal handler has raised: the session may have an unknown lock
                    self._sessions.drop(lent.session)
                if not goes_on:
                    self._sessions.give_back(lent)
        finally:
            if not goes_on:
                self.end(one)

    def _register(self, one: LockRequest, session: Session, fence: int) -> None:
        """Register what a request was granted, if anything."""
        if fence:
            until = one.at + one.request.ttl
            self._held.add(session, one.request, one.lock, fence, one.at, until)
        one.fence = fence

    def _go_on(self, one: LockRequest, lent: LentSession) -> bool:
        """Go on with a request whose caller's time is over, if it is under way."""
        if not lent.session.connection.under_way:
            return False
        try:
            self._world.spawn(self._finish(one, lent), "fencelock-request")
        except RuntimeError:  # no thread can be started
            self._sessions.drop(lent.session)
            return False
        return True

    async def _finish(self, one: LockRequest, lent: LentSession) -> None:
        """Register what the server answers later: the owner, which was told nothing, releases it
        or requests it again."""
        try:
            work = self._sessions.finish(lent.session)
            self._register(one, lent.session, await self._fence(lent.session, one.lock, work))
        except FencelockError:
            pass  # nothing is held, or the session was dropped
        finally:
            self._sessions.give_back(lent)
            self.end(one)

    async def get_lock(self, session: Session, lock: str, limit: int, wait: float) -> int:
        """Have the server grant a lock to a session; return the fence, or 0 when it did not."""
        work = self._sessions.query(session, self._sql.acquire(lock, wait), limit, wait)
        return await self._fence(session, lock, work)

    async def _fence(self, session: Session, lock: str, work: Awaitable[list[Reply]]) -> int:
        """Read the fence from the response to a request for a lock."""
        try:
            replies = await work
        except EngineError as error:
            if isinstance(error.__cause__, ServerError):  # else nothing was sent
                await self.let_go(session, lock)
            if is_interrupted(error):
                return 0
            raise
        fence = self._sql.read_fence(replies)
        if fence is None:  # the table of fences was emptied: end the lock that was granted without
            self._sessions.drop(session)
            raise Unavailable("the counter of fences had lost its row; nothing is held. Try again")
        return fence

    async def let_go(self, session: Session, lock: str) -> None:
        """Release a lock that no owner wants, or that a failed request may have been granted."""
        if session.connection.is_closed:
            return
        if not session.holds:
            session.limit = 0  # the failed request may have set it, or not
        try:
            await self._sessions.query(session, self._sql.release(lock))
        except EngineError:
            self._sessions.drop(session)
        except OutcomeUnknown:
            pass  # the session was dropped, or the request is under way
