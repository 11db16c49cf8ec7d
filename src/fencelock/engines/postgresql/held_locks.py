"""What the sessions of one client hold: by owner, by session, and by key.

The server would grant a lock twice to one session, so this is also where a key that the client has
taken is kept from being asked for again.
"""

from __future__ import annotations

from ...world import World
from .modes import Session
from .warden import Hold


class Holdings:
    """The advisory locks of one client."""

    def __init__(self, world: World) -> None:
        self._mutex = world.mutex()
        self._taken: dict[int, str] = {}
        """Keys that this client has, or is asking for, on a shared session: with the owner."""
        self.by_owner: dict[str, Hold] = {}

    def reserve(self, key: int, owner: str) -> Hold | bool:
        """Ask for a key on behalf of an owner, alone; else say who has it, if that is known."""
        with self._mutex:
            taker = self._taken.setdefault(key, owner)
        return taker == owner or self.by_owner.get(taker, False)

    def free(self, key: int, owner: str) -> None:
        """This owner has the key no more, and asks for it no more."""
        if self._taken.get(key) == owner:
            del self._taken[key]

    def add(self, owner: str, hold: Hold) -> None:
        """A lock was granted, or turned out to be still there."""
        with self._mutex:
            if self.by_owner.get(owner) is not hold:
                self.by_owner[owner] = hold
                hold.session.holds.add(owner)
                hold.session.ttls[hold.ttl] += 1

    def remove(self, owner: str, hold: Hold, leaver: object) -> bool:
        """A lock is about to be given back by this call; say whether it was known.

        Its key is not free yet.
        """
        with self._mutex:
            if self.by_owner.get(owner) is not hold:
                return False
            hold.leaver = leaver
            hold.session.holds.discard(owner)
            _less(hold.session, hold.ttl)
            del self.by_owner[owner]
        return True

    def forget(self, owner: str) -> None:
        """This owner has nothing any more, whatever broke off the calls that it made."""
        for key, taker in list(self._taken.items()):
            if taker == owner:
                self.free(key, owner)

    def change(self, hold: Hold, ttl: float) -> None:
        """From now on it has another ttl."""
        if hold.ttl != ttl:
            hold.session.ttls[ttl] += 1
            _less(hold.session, hold.ttl)
            hold.ttl = ttl

    def bury(self, session: Session) -> list[str]:
        """A session has ended: whatever it held is gone. Return whose that was."""
        owners = list(session.holds)
        for owner in owners:
            hold = self.by_owner.pop(owner, None)
            if hold is not None:
                self.free(hold.key, owner)
        session.holds.clear()
        session.ttls.clear()
        return owners


def _less(session: Session, ttl: float) -> None:
    """One hold less with this ttl."""
    session.ttls[ttl] -= 1
    if session.ttls[ttl] <= 0:
        del session.ttls[ttl]
