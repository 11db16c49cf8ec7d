"""Emit what goes through a node as events, as a client emits its own attempts and holds.

What is kept here only serves to count: how long a client waited or held, and that a hold is over
whose client has not called since. It is soft: a lock that was acquired here may be renewed and
released through another node, and is then counted as held here until its ttl is over.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import observe
from ..engine import Engine
from ..model import Gone, Grant, Request, role_of
from ..observe import Event, group_of
from ..world import World

HOLDS_MAX = 100_000  # holds and waiters whose beginnings are remembered
SWEEP_S = 5.0


class _Hold(NamedTuple):
    grant: Grant
    since: float
    until: float
    """When the hold is over unless it is renewed."""


class Tally:
    """The attempts and holds that went through one node."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._scheme = engine.address.scheme
        self._waiting: dict[str, float] = {}
        """By owner, since when its request waits."""
        self._holds: dict[str, _Hold] = {}
        self._sweep_at = 0.0

    def waiting(self, request: Request, position: int | None) -> None:
        """Emit, once, that a request waits in the queue."""
        known = request.owner in self._waiting or len(self._waiting) >= HOLDS_MAX
        if observe.subscribers and not known:
            self._waiting[request.owner] = self._world.now()
            observe.emit(self._of(request, "waiting")._replace(position=position))

    def refused(self, request: Request, outcome: str, blocker: str = "") -> None:
        """Emit that an attempt has ended without a grant."""
        if observe.subscribers:
            now = self._world.now()
            since = self._waiting.pop(request.owner, None)
            seconds = 0.0 if since is None else now - since
            event = self._of(request, "refused")._replace(outcome=outcome, seconds=seconds)
            observe.emit(event._replace(waited=since is not None, blocker=blocker))

    def left(self, request: Request, outcome: str) -> None:
        """Emit that a request waits no more, if it did."""
        if request.owner in self._waiting:
            self.refused(request, outcome)

    def granted(self, grant: Grant, waited: float) -> None:
        """Emit that a lock was granted; the same grant, reported once more, only lasts longer."""
        if not observe.subscribers:
            return
        known = self._holds.get(grant.owner)
        since = grant.asked_at if known is None else known.since
        if known is None or known.grant.fence != grant.fence:
            joined = self._waiting.pop(grant.owner, None)
            seconds = waited if joined is None else self._world.now() - joined
            event = self._held(grant, "acquired")
            observe.emit(event._replace(seconds=seconds, waited=joined is not None))
        if known is not None or len(self._holds) < HOLDS_MAX:
            self._holds[grant.owner] = _Hold(grant, since, grant.valid_until)

    def renewed(self, grant: Grant) -> None:
        """Emit that a lease was renewed, and what was left of it if it was granted here."""
        if not observe.subscribers:
            return
        known, event = self._holds.get(grant.owner), self._held(grant, "renewed")
        if known is not None:
            self._holds[grant.owner] = known._replace(until=grant.valid_until)
            event = event._replace(slack=max(0.0, known.until - self._world.now()))
        observe.emit(event)

    def released(self, grant: Grant) -> None:
        """Emit that a lock was released."""
        self._end(grant, "released")

    def lost(self, grant: Grant, gone: Gone) -> None:
        """Emit that a lease is lost, as a renewal has found."""
        self._end(grant, "lost", gone)

    def dropped(self, grant: Grant) -> None:
        """Emit that a hold was abandoned: its client did not take the lock, or did not renew it."""
        self._end(grant, "abandoned")

    def revoked(self, name: str, reason: str) -> None:
        """Emit that a lock was revoked."""
        if observe.subscribers:
            group = group_of(name)
            observe.emit(Event("revoked", name, None, reason, engine=self._scheme, group=group))

    def sweep(self) -> None:
        """Now and then, emit as abandoned the holds that ended without a call of their clients."""
        now = self._world.now()
        if now < self._sweep_at:
            return
        self._sweep_at = now + SWEEP_S
        for hold in [hold for hold in self._holds.values() if hold.until <= now]:
            self.dropped(hold.grant)

    def _end(self, grant: Grant, kind: str, gone: Gone | None = None) -> None:
        known = self._holds.pop(grant.owner, None)
        if not observe.subscribers:
            return
        event = self._held(grant if known is None else known.grant, kind)
        if known is not None and kind != "abandoned":
            event = event._replace(seconds=self._world.now() - known.since)
        if gone is not None:
            event = event._replace(outcome=gone.loss, detail=gone.reason)
        observe.emit(event)

    def _of(self, request: Request, kind: str) -> Event:
        name, role = request.name, role_of(request.share)
        return Event(kind, name, role=role, engine=self._scheme, group=group_of(name))

    def _held(self, grant: Grant, kind: str) -> Event:
        name, share, scheme = grant.name, grant.share, self._scheme
        slot = None if share is None else share.slot
        return Event(
            kind,
            name,
            grant.fence,
            role=role_of(share),
            slot=slot,
            engine=scheme,
            group=group_of(name),
        )
