"""Where the contenders of one client stand: the key of each owner, and who may use which.

Nothing is sent from here. A place is taken before its key is asked for and forgotten when the key
is gone; a request for it that was never answered may bring the key back, and then nobody else uses
that key until it has been taken away.
"""

from __future__ import annotations

from ...model import Request
from ...world import World
from . import replies
from .naming import KEPT_MAX, Naming, Steps, value_of
from .session import Sessions
from .tenancy import Place, Session
from .watcher import Watcher


class Standing:
    """All places of one client."""

    def __init__(self, world: World, sessions: Sessions, watcher: Watcher, naming: Naming) -> None:
        self._world = world
        self._sessions = sessions
        self._watcher = watcher
        self._naming = naming
        self._keys: dict[bytes, Place] = {}
        self.places: dict[str, Place] = {}
        """By owner."""
        sessions.reaped = self.forget

    def take(self, request: Request, session: Session) -> Place:
        """Where this owner stands or will stand; the same place when it asks again."""
        name, owner, _, meta, _, _, _ = request
        old = self.places.get(owner)
        if old is not None:
            if old.session is session:
                return old
            self.forget(old, certain=True)  # its lease has ended, and its key with it
        steps = session.steps.get(name) or self._steps(name, session)
        place = Place(owner, steps.key, value_of(owner, self._world.wall_us(), meta), session, 0.0)
        number = 0  # of another contender of this client; setdefault lets one thread have a key
        while place.key in session.ghosts or self._keys.setdefault(place.key, place) is not place:
            number += 1
            place.key = steps.key + b"-%d" % number
        if number:
            steps = self._naming.steps(name, place.key, session.lease)
            steps.crowded = steps.crowded or 1  # by ourselves
        place.steps = steps
        self.places[owner] = session.places[owner] = place
        if self._sessions.job is None:
            self._sessions.start()
        return place

    def adopt(self, owner: str, pair: replies.KeyValue, session: Session) -> Place:
        """Look after a key that is on a lease of ours from now on."""
        place = Place(owner, pair.key, pair.value, session, session.ends_at)
        place.created = pair.created
        old = self.places.get(owner)
        if old is not None and old.key == pair.key:
            place.unanswered, old.unanswered = old.unanswered, 0
        if old is not None:
            self.forget(old)
        self.places[owner] = self._keys[pair.key] = session.places[owner] = place
        self._sessions.start()
        return place

    def expect(self, owner: str, pair: replies.KeyValue, session: Session, until: float) -> None:
        """A key may be put on a lease of ours, and the answer be lost: it must not stay there."""
        session.places[owner] = Place(owner, pair.key, pair.value, session, until)
        self._sessions.start()

    def forget(self, place: Place, certain: bool = False, keep_key: bool = False) -> None:
        """The key is gone; unless that is certain, a late request may still bring it back."""
        if certain:
            place.unanswered = 0
        if place.watch:
            self._watcher.disarm(place)
        owner, key = place.owner, place.key
        place.session.places.pop(owner, None)
        if place.unanswered:
            self._sessions.expect(place)
        if self.places.get(owner) is place:
            del self.places[owner]
        if not keep_key and self._keys.get(key) is place:
            del self._keys[key]

    def _steps(self, name: str, session: Session) -> Steps:
        """Those with the first key of ours for a name; made once for names in use."""
        if len(session.steps) >= KEPT_MAX:
            session.steps.clear()
        key = self._naming.ways(name).lower + session.hex
        steps = session.steps[name] = self._naming.steps(name, key, session.lease)
        return steps
