"""Locks between the threads and tasks of one process: the executable specification of an engine.

Everything that is promised about expiry, hand-over, queues and fences is said here in the fewest
words; the other engines say the same in the language of their store.

* A name is free, or one record says who holds it and until when.
* Release and expiry hand the lock to the first waiter that answers: the record is written for
  that waiter at once, with a short time to claim it. A newcomer never overtakes.
* A waiter that does not claim in time has lapsed: it is passed over until it looks again, and
  keeps its position.
* One counter, lifted to the wall clock, serves all names: a fence outlives the record of its name
  and the process, and nothing is kept for unused names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..engine import Address, Engine
from ..model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    Waiting,
    granted,
    next_fence,
)
from ..world import Signal, World

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
LOOK_S = 0.5  # the slow look that makes up for a push that never came
FORGET_S = 30.0  # a waiter that has not looked for so long is dead


class _Record:
    def __init__(self, who: Request | _Waiter, fence: int, now: float, claimed: bool) -> None:
        self.owner = who.owner
        self.ttl = who.ttl
        self.meta = who.meta
        self.fence = fence
        self.since = now
        self.expires_at = now + (who.ttl if claimed else min(CLAIM_S, who.ttl))
        self.claimed = claimed


class _Waiter:
    def __init__(self, request: Request, now: float) -> None:
        self.owner = request.owner
        self.ttl = request.ttl
        self.meta = request.meta
        self.since = now
        self.seen_at = now
        self.lapsed = False


class Store:
    """What the clients of one ``memory://`` address share."""

    def __init__(self, world: World) -> None:
        self.mutex = world.mutex()
        self.wall_us = world.wall_us
        self.fence = 0
        self.records: dict[str, _Record] = {}
        self.queues: dict[str, dict[str, _Waiter]] = {}
        self.signals: dict[str, Signal] = {}
        self.revoked: dict[str, str] = {}

    def current(self, name: str, now: float) -> _Record | None:
        """The record of a name; an expired one is taken away and the lock handed on."""
        record = self.records.get(name)
        if record is not None and record.expires_at > now:
            return record
        if record is not None:
            del self.records[name]
            if not record.claimed and record.owner in self.queues.get(name, {}):
                self.queues[name][record.owner].lapsed = True
        return self.hand_on(name, now)

    def hand_on(self, name: str, now: float) -> _Record | None:
        """Give a free lock to the first waiter that answers, and push to it."""
        queue = self.queues.get(name, {})
        for waiter in list(queue.values()):
            if now - waiter.seen_at > FORGET_S:
                del queue[waiter.owner]
            elif not waiter.lapsed:
                record = self.give(name, waiter, now, claimed=False)
                if waiter.owner in self.signals:
                    self.signals[waiter.owner].set()
                return record
        if not queue:
            self.queues.pop(name, None)
        return None

    def give(self, name: str, who: Request | _Waiter, now: float, claimed: bool) -> _Record:
        self.fence = next_fence(self.fence, self.wall_us())
        record = self.records[name] = _Record(who, self.fence, now, claimed)
        return record

    def leave(self, name: str, owner: str, now: float) -> bool:
        """Take an owner out of the queue and out of the lock; True when it held the lock."""
        queue = self.queues.get(name, {})
        queue.pop(owner, None)
        if not queue:
            self.queues.pop(name, None)
        record = self.current(name, now)
        if record is None or record.owner != owner:
            return False
        del self.records[name]
        self.hand_on(name, now)
        return True


_stores: dict[tuple[str, int], Store] = {}


class MemoryEngine(Engine):
    """``memory://`` or ``memory://name``: clients of one process share it by address."""

    schemes = ("memory",)
    plain = True
    traits = Traits("correctness", "process", fence=True, fifo=True, push=True)

    def __init__(self, world: World, address: Address, store: Store | None = None) -> None:
        super().__init__(world, address)
        key = (address.public, world.generation())  # a forked child starts with nothing
        self.store = store or _stores.setdefault(key, Store(world))

    async def open(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def acquire(self, request: Request) -> Grant | Busy:
        now = self.world.now()
        with self.store.mutex:
            record = self.store.current(request.name, now)
            if record is None:
                record = self.store.give(request.name, request, now, claimed=True)
            elif record.owner != request.owner:
                return self._busy(request, record, now)
            record.claimed = True
            record.expires_at = now + request.ttl
            self.store.queues.get(request.name, {}).pop(request.owner, None)
            return granted(request.name, request.owner, record.fence, request.ttl, now)

    def _busy(self, request: Request, record: _Record, now: float) -> Busy:
        queue = self.store.queues.get(request.name, {})
        if request.queue:
            queue = self.store.queues.setdefault(request.name, queue)
            waiter = queue.setdefault(request.owner, _Waiter(request, now))
            waiter.seen_at, waiter.lapsed = now, False
        position = list(queue).index(request.owner) if request.owner in queue else len(queue)
        look_in = min(record.expires_at - now, LOOK_S)
        return Busy(look_in, position, request.queue, record.meta)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        with self.store.mutex:
            return [self._extend(grant, now) for grant in grants]

    def _extend(self, grant: Grant, now: float) -> Grant | Gone:
        record = self.store.current(grant.name, now)
        if record is not None and record.owner == grant.owner:
            record.ttl, record.expires_at = grant.ttl, now + grant.ttl
            return granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        if grant.owner in self.store.revoked:
            return Gone("revoked", self.store.revoked.pop(grant.owner))
        return Gone("expired", "its record is gone from the engine")

    async def release(self, grant: Grant) -> bool:
        with self.store.mutex:
            return self.store.leave(grant.name, grant.owner, self.world.now())

    async def withdraw(self, request: Request) -> None:
        with self.store.mutex:
            self.store.leave(request.name, request.owner, self.world.now())

    async def watch(self, request: Request, signal: Signal) -> None:
        self.store.signals[request.owner] = signal

    async def unwatch(self, request: Request) -> None:
        self.store.signals.pop(request.owner, None)

    async def inspect(self, name: str) -> State:
        now = self.world.now()
        with self.store.mutex:
            self.store.current(name, now)
            queue = self.store.queues.get(name, {}).values()
            waiters = tuple(Waiting(now - w.since, json.loads(w.meta)) for w in queue)
            return State(name, tuple(self._holdings(name, now)), waiters)

    async def revoke(self, name: str, reason: str) -> bool:
        now = self.world.now()
        with self.store.mutex:
            record = self.store.current(name, now)
            if record is None or not record.claimed:
                return False
            self.store.revoked = dict([*self.store.revoked.items(), (record.owner, reason)][-1000:])
            return self.store.leave(name, record.owner, now)

    async def scan(self, prefix: str) -> list[Holding]:
        now = self.world.now()
        with self.store.mutex:
            names = sorted(name for name in self.store.records if name.startswith(prefix))
            return [holding for name in names for holding in self._holdings(name, now)]

    async def diagnose(self) -> list[Finding]:
        return [
            Finding(
                "warning",
                "scope",
                "these locks exist within one process only",
                "use sqlite:/// for the processes of one machine",
            )
        ]

    def _holdings(self, name: str, now: float) -> list[Holding]:
        record = self.store.records.get(name)
        if record is None or record.expires_at <= now or not record.claimed:
            return []
        age, remaining = now - record.since, record.expires_at - now
        return [Holding(name, record.fence, record.ttl, age, remaining, json.loads(record.meta))]
