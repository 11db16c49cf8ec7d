"""The registry of what this client holds or may come to hold; ends what is past its ttl.

A renewal of a session keeps all its leases. So each lease has an end of its own here, and its key
is deleted if it is not renewed by then. A process that dies deletes nothing: Consul does when the
session ends.

A request without a reply may take effect late: an agent holds it back while there is no leader, a
server while it commits. Its key would be held without an owner for as long as the session is
renewed. So the key is checked until that can no longer happen, also after the request was withdrawn
or the lock released, as a late request finds the key free then.

Such a check deletes the key of an owner, who may retry at the same moment: what the retry is
granted must not be deleted as late. So no attempt begins while the owner's former hold is being
ended, and no hold is ended once another attempt of its owner has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...errors import FencelockError
from ...model import Gone
from ...world import World, snapshot
from ..shared_session import end_if_unused
from ..timer import NEVER, RETRY_S, Timer
from .agents import Agents, Refused
from .pairs import delete, unchanged
from .sessions import Session, SessionGone, Sessions

IDLE_S = 60.0  # an unused session is kept so long, so that the next acquire is quick
LATE_S = 45.0  # an agent holds a request back for 7 s, and a server waits 30 s for its log
CHECK_S = 2.0  # between two checks for a late request
ENDED = Gone("session", "its Consul session has ended")


class Hold:
    """One owner's key, from before the request to lock it until it is certainly not held."""

    def __init__(self, owner: str, key: str, session: Session, until: float) -> None:
        self.owner = owner
        self.key = key
        self.session = session
        self.modify_index: int | None = None
        """The ModifyIndex of our last write to it; None until it is known."""
        self.until = until
        """When its key is deleted unless it is renewed."""
        self.late_until = 0.0
        """Until when an unanswered request may take effect."""
        self.ending = False
        """Whether it is past its end, and its key deleted or to be deleted."""
        self.deleting = False
        """Whether the background job deletes its key now."""


class Holds:
    """The holds of one client, by owner."""

    def __init__(self, world: World, agents: Agents, sessions: Sessions) -> None:
        self._world = world
        self._agents = agents
        self._sessions = sessions
        self._mutex = world.mutex()
        self.by_owner: dict[str, Hold] = {}
        self.timer = Timer(world, self._run, "fencelock-consul")
        self.on_gone: Callable[[Collection[str], Gone], None] = lambda owners, gone: None

    def begin(self, owner: str, key: str, session: Session, until: float) -> Hold | None:
        """Register a hold before its request is sent.

        None while the owner's former hold is being ended, or if its session is being destroyed.
        """
        hold = Hold(owner, key, session, until)
        with self._mutex:
            if session.ended:
                return None
            if (before := self.by_owner.get(owner)) is not None:
                if before.deleting:
                    return None
                hold.late_until = before.late_until
            self.by_owner[owner] = hold
        self.timer.expect(min(until, session.alive_at + session.ttl / 2))
        return hold

    def extend(self, hold: Hold, until: float) -> bool:
        """Set the end of a hold; False if it is past its end already."""
        with self._mutex:
            if hold.ending:
                return False
            hold.until = until
        self.timer.expect(until)
        return True

    def mark_unanswered(self, hold: Hold) -> float:
        """Note that a request may be unanswered; return the former ``late_until``."""
        before, hold.late_until = hold.late_until, self._world.now() + LATE_S
        return before

    def forget(self, hold: Hold) -> None:
        """Forget a hold whose key is not held, unless a request may still take effect."""
        hold.modify_index, now = None, self._world.now()
        if hold.late_until > now:
            hold.until = now + CHECK_S
            self.timer.expect(hold.until)
        elif self.by_owner.get(hold.owner) is hold:
            self.by_owner.pop(hold.owner, None)

    async def end(self, hold: Hold) -> bool:
        """Delete the key of a hold if the hold has it; return whether it had."""
        index = hold.modify_index
        freed = index is not None and await self.delete(hold.key, index)
        if not freed and not (hold.ending and index is not None):
            freed = await self.free(hold.owner, hold.key, hold.ending)
        self.forget(hold)
        return freed

    async def free(self, owner: str, key: str, only_here: bool = False) -> bool:
        """Delete the key of an owner, on any session or ``only_here``; return whether it was."""
        found = await self._agents.find(key)
        if found is None or not found.session or found.owner != owner:
            return False
        if only_here and found.session not in self._sessions.by_id:
            return False
        return await self.delete(key, found.modify_index)

    async def delete(self, key: str, index: int) -> bool:
        """Delete a key if it still has this index; return whether it had."""
        done = await self._agents.transact(unchanged(key, index), delete(key))
        return not isinstance(done, Refused)

    def ended(self, session: Session) -> None:
        """Report to the owners that their session has ended."""
        self._sessions.end(session)
        owners = {owner for owner, hold in snapshot(self.by_owner) if hold.session is session}
        self.on_gone(owners, ENDED)

    async def _run(self) -> float:
        """Delete keys past their end and renew sessions in use; return when to run again."""
        soonest = NEVER
        for _, hold in snapshot(self.by_owner):
            if hold.until <= self._world.now():
                await self._end_late(hold)
            if self.by_owner.get(hold.owner) is hold:
                soonest = min(soonest, hold.until)
        for _, session in snapshot(self._sessions.by_id):
            soonest = min(soonest, await self._maintain(session))
        return soonest

    async def _end_late(self, hold: Hold) -> None:
        """End a hold that is past its end, unless it was extended or replaced meanwhile."""
        with self._mutex:
            if hold.until > self._world.now() or self.by_owner.get(hold.owner) is not hold:
                return
            hold.ending = hold.deleting = True
        try:
            await self.end(hold)
        finally:
            hold.deleting = False

    async def _maintain(self, session: Session) -> float:
        """Renew a session at half its TTL, or destroy an unused one; return when to run again."""
        now = self._world.now()
        if now >= session.used_at + IDLE_S and self._end_unused(session):
            await self._sessions.destroy(session)
            return NEVER
        if now >= session.alive_at + session.ttl / 2:
            try:
                await self._sessions.renew(session)
            except SessionGone:
                self.ended(session)
                return NEVER
            except FencelockError:
                return now + RETRY_S
        return session.alive_at + session.ttl / 2

    def _end_unused(self, session: Session) -> bool:
        return end_if_unused(session, self.by_owner, self._mutex, self._sessions.end)

    async def close(self) -> None:
        """Stop the background job, and destroy the sessions that hold nothing."""
        await self.timer.close()
        for _, session in snapshot(self._sessions.by_id):
            if self._end_unused(session):
                await self._sessions.destroy(session)
