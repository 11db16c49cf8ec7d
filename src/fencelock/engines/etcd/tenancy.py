"""One etcd lease, and the keys on it: what is known of them, and until when it holds.

How long a lease lasts is counted from before the keep-alive was sent. A member that was the leader
and does not know that it is no more may answer one; so an extension counts only when the same
member has answered a linearizable request that was sent after it (``prove``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ...model import Grant, drift
from ...world import Signal
from .naming import Steps

FRESH, FRESH_MIN_S = 0.1, 0.5  # of a lease that a grant is made on no more than this has passed
LATELY_S = 1.0  # who extends it does so for all who come meanwhile
_NEVER = -2  # no turn is that

# A named tuple made as the plain one that it is, in half the time.
_make: Callable[[type[Grant], tuple[object, ...]], Grant] = cast("Any", tuple).__new__


class Place:
    """One key of ours: a place in the queue for a name, and at its head the lock."""

    __slots__ = (
        "ahead",
        "created",
        "holder",
        "hoped",
        "key",
        "owner",
        "session",
        "signal",
        "steps",
        "unanswered",
        "until",
        "value",
        "waiting",
        "watch",
    )

    def __init__(
        self, owner: str, key: bytes, value: bytes, session: Session, until: float
    ) -> None:
        self.owner = owner
        self.key = key
        self.value = value
        """What it says, and that is ours: a key is used again, a value never."""
        self.session = session
        self.until = until
        """When it is deleted unless somebody asks for it again."""
        self.created = 0
        """Its create revision; 0 while that is not known."""
        self.unanswered = 0
        """Requests to make the key that have not been answered: each may still take effect."""
        self.waiting = False
        self.holder: tuple[bytes, str] = (b"", "")
        """The key at the head of the queue and what its holder says of itself."""
        self.ahead: tuple[bytes, int, bool] = (b"", 0, False)
        """The key right before this one, the revision at which it was seen, and whether many more
        stand before that."""
        self.signal: Signal | None = None
        self.watch = 0
        self.steps: Steps | None = None
        """The transactions with this key, once they are made."""
        self.hoped = session.hoped
        """The extension of its lease that was known when the last request was sent."""

    def grant(self, name: str, asked_at: float) -> Grant:
        """The lock is ours, for as long as the etcd lease is known to last."""
        session = self.session
        self.waiting, self.until = False, session.ends_at
        end = session.valid_until
        return _make(Grant, (name, self.owner, self.created, session.ttl, asked_at, end))

    def wanted(self, now: float, look_s: float) -> None:
        """Keep its place in the queue until somebody looks again, which takes so long at most for
        those who are told of their turn."""
        self.until = now + self.session.ttl + (0.0 if self.signal is None else look_s)

    def call(self, now: float) -> None:
        """Have whoever waits here look again; who does not answer for a ttl is passed over."""
        if self.waiting:
            self.until = min(self.until, now + self.session.ttl)
        if self.signal is not None:
            self.signal.set()


class Session:
    """One etcd lease, and the keys on it."""

    def __init__(self, lease: int, ttl: float, now: float) -> None:
        self.lease = lease
        self.hex = f"{lease:x}".encode()
        self.ttl = ttl
        """As the server gave it."""
        self._live_from(now)
        self.used_at = now
        self.tried_at = now
        self.ended = False
        self.places: dict[str, Place] = {}
        self.steps: dict[str, Steps] = {}
        """By name: the transactions with the first key of ours."""
        self.ghosts: dict[bytes, tuple[bytes, float]] = {}
        """Keys that were withdrawn and may still appear with their value, and until when."""
        self.hoped = (now, -1)
        """The last extension: when it was asked for, and in which turn."""
        self.proved_in = _NEVER
        """The turn in which the last extension was proved."""
        self.fresh_until = 0.0
        """A grant may be made on it until then without extending it."""
        self.hope(now, -1)

    def hope(self, asked_at: float, turn: int) -> None:
        """A member has extended it."""
        self.hoped = (asked_at, turn)
        self.proved_in = _NEVER  # second: see prove()
        self.fresh_until = asked_at + max(self.ttl * FRESH, FRESH_MIN_S)

    def wants_extension(self, now: float) -> bool:
        """Whether whoever needs it should extend it: not if another has just begun to."""
        if now <= self.fresh_until:
            return False
        return now > self.tried_at + LATELY_S or self.ends_at - now < self.ttl / 2

    def prove(self, turn: int, hoped: tuple[float, int]) -> bool:
        """The member of a turn has answered a linearizable request that was sent after this
        extension: if it was the same member, the extension counts."""
        asked_at, extended_in = hoped
        if extended_in not in (turn, -1):
            return False
        if extended_in == turn and asked_at > self.alive_at:
            self._live_from(asked_at)
        self.proved_in = turn
        if self.hoped is not hoped:  # another thread has extended it: that is to be proved anew
            self.proved_in = _NEVER
        return True

    def _live_from(self, moment: float) -> None:
        """The lease lasts its ttl from then on; holders on it give up a little earlier."""
        self.alive_at = moment
        self.ends_at = moment + self.ttl
        self.valid_until = self.ends_at - drift(self.ttl)
