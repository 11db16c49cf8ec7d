"""Identities: who calls, what it may do, and how often.

Nothing is allowed unless a right says so. A right is a prefix of names with verbs. A prefix ends
where a segment of a name ends: ``team-a`` allows ``team-a``, ``team-a/x`` and ``team-a:x``, never
``team-ab``. Names are compared as they are; nothing in them is decoded or resolved.

What is counted here is soft: it limits what goes through this node, and is forgotten when the node
ends. The engine alone knows who holds what.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from .problems import Problem

Verb: TypeAlias = Literal["acquire", "observe", "revoke"]
VERBS: tuple[Verb, ...] = ("acquire", "observe", "revoke")
ENDS = "/:"  # where a segment of a name ends
BURST_S = 2.0  # an identity may make at once the calls that it has not made for so long
FAILURES_MAX = 10_000  # peers whose failed logins are remembered
DELAY_MIN_S, DELAY_MAX_S = 0.1, 3.0
FORGIVE_S = 300.0
DIGEST = "sha256:"


class Right(NamedTuple):
    """Verbs that are allowed for names that begin with a prefix."""

    prefix: str
    verbs: tuple[Verb, ...]

    def covers(self, name: str) -> bool:
        prefix = self.prefix
        if not name.startswith(prefix):
            return False
        rest = name[len(prefix) :]
        return not rest or not prefix or prefix[-1] in ENDS or rest[0] in ENDS


class Quota(NamedTuple):
    """The most that an identity may use of one node."""

    held: int | None = None
    waiting: int | None = None
    calls_per_s: float | None = None
    ttl_max: float | None = None


class Identity(NamedTuple):
    """A caller, with its rights and its quota."""

    name: str
    rights: tuple[Right, ...]
    quota: Quota = Quota()
    digests: tuple[str, ...] = ()
    """SHA-256 of its tokens, in hex: two while one replaces the other."""

    def may(self, verb: Verb, name: str) -> bool:
        return any(verb in right.verbs and right.covers(name) for right in self.rights)

    def may_somewhere(self, verb: Verb) -> bool:
        return any(verb in right.verbs for right in self.rights)


ANONYMOUS = Identity("anonymous", (Right("", VERBS),))
"""Every caller of a service that was started without identities."""


def digest(token: str) -> str:
    """Return what is kept of a token. It has 256 random bits, so that no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


class _Usage:
    """What one identity has used of this node."""

    def __init__(self, now: float) -> None:
        self.calls = 0.0
        """How many calls it could make at once, at ``counted_at``."""
        self.counted_at = now - BURST_S
        self.held: dict[str, float] = {}
        """Owners of grants that went through this node, and when they end unless renewed."""


class Access:
    """The identities of a node, and what they have used of it."""

    def __init__(self, identities: Sequence[Identity] | None) -> None:
        self.is_open = identities is None
        """Whether everybody may call."""
        self._by_digest: dict[str, Identity] = {}
        self._usage: dict[str, _Usage] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        if identities is not None:
            self.replace(identities)

    def replace(self, identities: Sequence[Identity]) -> None:
        """Use other identities from now on; the counts of what they have used go on."""
        self._by_digest = {one: identity for identity in identities for one in identity.digests}

    def identify(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity whose token was sent.

        It is found by its digest, which tells nothing about the token, and compared in constant
        time once more.
        """
        if self.is_open:
            return ANONYMOUS
        scheme, _, token = headers.get("authorization", "").partition(" ")
        sent = digest(token.strip(" "))
        found = self._by_digest.get(sent)
        if scheme.lower() != "bearer" or found is None:
            raise Problem("unauthorized", headers={"WWW-Authenticate": 'Bearer realm="fencelock"'})
        if not any(hmac.compare_digest(sent, one) for one in found.digests):
            raise Problem("unauthorized", headers={"WWW-Authenticate": 'Bearer realm="fencelock"'})
        return found

    def failed(self, peer: str, now: float) -> float:
        """Count a failed login of this peer; return by how many seconds to delay its answer."""
        times, last = self._failures.pop(peer, (0, now))
        times = 1 if now - last > FORGIVE_S else times + 1
        self._failures[peer] = (times, now)
        while len(self._failures) > FAILURES_MAX:
            self._failures.pop(next(iter(self._failures)))
        return float(min(DELAY_MIN_S * 2 ** min(times - 1, 10), DELAY_MAX_S))

    def count_call(self, identity: Identity, now: float) -> None:
        """Count a call, or refuse it if it is above the rate of its identity."""
        rate = identity.quota.calls_per_s
        if rate is None:
            return
        usage = self._used_by(identity, now)
        most = max(rate * BURST_S, 1.0)
        usage.calls = min(most, usage.calls + (now - usage.counted_at) * rate)
        usage.counted_at = now
        if usage.calls < 1.0:
            raise Problem("quota", "Too many calls", retry_in=(1.0 - usage.calls) / rate)
        usage.calls -= 1.0

    def check_held(self, identity: Identity, owner: str, now: float) -> None:
        """Refuse a grant above the number that an identity may hold through this node."""
        most = identity.quota.held
        if most is None:
            return
        usage = self._used_by(identity, now)
        if owner in usage.held or len(usage.held) < most:
            return
        usage.held = {one: until for one, until in usage.held.items() if until > now}
        if len(usage.held) >= most:
            soonest = min(usage.held.values(), default=now + 1.0)
            raise Problem("quota", f"{most} locks are held already", retry_in=soonest - now)

    def holds(self, identity: Identity, owner: str, until: float) -> None:
        """Count a grant, or a renewal."""
        if identity.quota.held is not None:
            self._used_by(identity, until).held[owner] = until

    def holds_no_more(self, identity: Identity, owner: str) -> None:
        usage = self._usage.get(identity.name)
        if usage is not None:
            usage.held.pop(owner, None)

    def _used_by(self, identity: Identity, now: float) -> _Usage:
        return self._usage.setdefault(identity.name, _Usage(now))
