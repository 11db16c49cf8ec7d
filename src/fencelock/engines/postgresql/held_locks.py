"""The locks that the sessions of one client hold, by owner, by session and by key.

The server would grant a lock twice to one session, so this registry also keeps a key that the
client has taken from being requested again, until the server has replied that it is unlocked.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ...errors import FencelockError
from ...world import World, snapshot
from .._sql.hold import Hold
from .._sql.release_once import ReleaseOnce
from .rows import Rows, flag
from .session_pool import SessionPool
from .wire import Session


class HeldLocks:
    """The advisory locks of one client."""

    def __init__(self, world: World, sessions: SessionPool, request_timeout: float) -> None:
        self._world = world
        self._sessions = sessions
        self._request_timeout = request_timeout
        self._mutex = world.mutex()
        self._taken: dict[int, str] = {}
        """By key: the owner that has it, or requests it, on a shared session."""
        self.by_owner: dict[str, Hold[Session]] = {}
        self._once = ReleaseOnce(world, self.by_owner)
        self.settled = self._once.settled

    def reserve(self, key: int, owner: str) -> Hold[Session] | bool:
        """Reserve a key for an owner's request; True if done, else its holder, False if unknown."""
        with self._mutex:
            taker = self._taken.setdefault(key, owner)
        return taker == owner or self.by_owner.get(taker, False)

    def free(self, key: int, owner: str) -> None:
        """End an owner's reservation of a key."""
        if self._taken.get(key) == owner:
            del self._taken[key]

    def add(self, owner: str, hold: Hold[Session]) -> None:
        """Record a lock that was granted, or turned out to be still held."""
        with self._mutex:
            if self.by_owner.get(owner) is not hold:
                self.by_owner[owner] = hold
                hold.session.holds.add(owner)
                hold.session.ttls[hold.ttl] += 1

    def _remove(self, owner: str, hold: Hold[Session], releaser: object) -> bool:
        """Remove a lock that this call is about to unlock; return whether it was there.

        Its key stays reserved.
        """
        with self._mutex:
            if self.by_owner.get(owner) is not hold:
                return False
            hold.releaser = releaser
            hold.session.holds.discard(owner)
            _discount(hold.session, hold.ttl)
            del self.by_owner[owner]
        return True

    def change_ttl(self, hold: Hold[Session], ttl: float) -> None:
        """Set the ttl of a hold, also among the ttls of its session."""
        if hold.ttl != ttl:
            hold.session.ttls[ttl] += 1
            _discount(hold.session, hold.ttl)
            hold.ttl = ttl

    def drop_session(self, session: Session) -> None:
        """Remove all holds of a session that has ended."""
        for owner in list(session.holds):
            hold = self.by_owner.pop(owner, None)
            if hold is not None:
                self.free(hold.key, owner)
        session.holds.clear()
        session.ttls.clear()

    async def forget(self, owner: str) -> None:
        """Free all keys of an owner that holds no lock, however its calls were interrupted."""
        await self._once.settled([owner], self._request_timeout)
        for key, taker in snapshot(self._taken):
            if taker == owner:
                self.free(key, owner)

    def give_back(self, owner: str, hold: Hold[Session]) -> Awaitable[bool]:
        """Unlock, unless another call does; False if the lock was lost or its lease was over."""
        in_time = hold.until > self._world.now()
        return self._unlock(owner, hold) if in_time else self._unlock_late(owner, hold)

    async def expire(self, owner: str, hold: Hold[Session]) -> None:
        """Unlock a hold that was not renewed."""
        try:
            await self.give_back(owner, hold)
        except FencelockError:
            hold.session.drop()  # it cannot be unlocked here: the server unlocks it

    async def _unlock_late(self, owner: str, hold: Hold[Session]) -> bool:
        if not self._once.begin(owner, hold):
            await self._once.settled([owner], self._request_timeout)
            return False
        try:
            await self._unlock(owner, hold)
        finally:
            self._once.done(owner)
        return False

    async def _unlock(self, owner: str, hold: Hold[Session]) -> bool:
        """Unlock; only then may this client request the key again on a shared session."""
        session, releaser = hold.session, object()
        rows: Rows = []
        try:
            if not self._remove(owner, hold, releaser):
                return False
            rows = await self._sessions.unlock(session, owner, hold)
            hold.releaser = None
        except BaseException as error:
            if hold.releaser is not releaser:
                raise
            if not session.dead:  # it is still held, and will be unlocked by a later call
                self.add(owner, hold)
                raise
            self.drop_session(session)
            if not isinstance(error, FencelockError):
                raise
        self.free(hold.key, owner)
        if not session.holds:
            self._sessions.put_back(session)
        return bool(rows) and flag(rows[0][0])


def _discount(session: Session, ttl: float) -> None:
    """Remove one hold with this ttl from the ttls of a session."""
    session.ttls[ttl] -= 1
    if session.ttls[ttl] <= 0:
        del session.ttls[ttl]
