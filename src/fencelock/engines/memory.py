"""Locks between the threads and tasks of one process: the executable specification of an engine.

All rules of expiry, hand-over, queues and fences are written here in the fewest lines; the other
engines follow the same rules in the language of their store.

* A name has units: a mutex has one, a semaphore N, a read/write lock very many. A record says which
  owner holds how many of them, and until when.
* Release and expiry hand what is free to the first waiter that answers: a record is written for
  that waiter at once, with a short time to claim it. A newcomer never overtakes, and the first
  waiter keeps all others waiting until it fits: so nobody starves.
* A waiter that does not claim in time has lapsed: it is passed over until it looks again, and
  keeps its position.
* One counter, lifted to the wall clock, serves all names: a fence outlives the record of its name
  and the process, and nothing is kept for unused names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ..engine import Address, Engine
from ..model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Together,
    Traits,
    Waiting,
    granted,
    limits_differ,
    next_fence,
    role_of,
    share_shown,
    units_of,
)
from ..world import Signal, World
from .units import KINDS, Key, Memo, Name, Record, Waiter, key_of

PURGE_EVERY = 1000  # changes, or more if there is more to look at: then what is over is dropped
LOOK_S = 0.5  # between two looks of a waiter, which make up for a push that never came


class Store:
    """The state that the clients of one ``memory://`` address share."""

    def __init__(self, world: World) -> None:
        self.mutex = world.mutex()
        self.wall_us = world.wall_us
        self.fence = 0
        self.names: dict[Key, Name] = {}
        self.signals: dict[str, Signal] = {}
        self.observers: list[tuple[str, Signal]] = []
        self.remembered: dict[str, Memo] = {}
        self.revoked: dict[str, str] = {}
        self.changes = 0

    def changed(self, now: float) -> None:
        """Count a change, and drop now and then what is over and nobody looks at again."""
        self.changes += 1
        if self.changes >= max(PURGE_EVERY, len(self.names) + len(self.remembered)):
            self.changes = 0
            for key in list(self.names):
                self.current(key, now)
            self.remembered = {k: memo for k, memo in self.remembered.items() if memo.until > now}

    def current(self, key: Key, now: float) -> Name | None:
        """Return a name as it is now: remove expired records, and hand on what is free."""
        name = self.names.get(key)
        if name is not None:
            name.expire(now)
            self.hand_on(key, name, now)
        return name

    def hand_on(self, key: Key, name: Name, now: float) -> None:
        """Give what is free to the first waiters that answer, and push to them."""
        while name.free and (first := name.first(now)) is not None:
            request = name.queue[first].request
            if units_of(request.share) > name.free:
                break
            self.give(name, request, now, claimed=False)
            if first in self.signals:
                self.signals[first].set()
        if not name.queue and not name.records:
            self.names.pop(key, None)

    def give(self, name: Name, request: Request, now: float, claimed: bool) -> Record:
        self.fence = next_fence(self.fence, self.wall_us())
        record = Record(request, self.fence, now, claimed)
        name.add(record)
        return record

    def leave(self, key: Key, owner: str, now: float) -> bool:
        """Take an owner out of the queue and out of the records; True when it had a record."""
        name = self.names.get(key)
        if name is None:
            return False
        name.queue.pop(owner, None)
        name.expire(now)
        held = name.records.pop(owner, None) is not None
        self.hand_on(key, name, now)
        return held


_stores: dict[tuple[str, int], Store] = {}


class MemoryEngine(Engine):
    """``memory://`` or ``memory://name``: clients of one process share it by address."""

    schemes = ("memory",)
    plain = True
    traits = Traits(
        "correctness", "process", fence=True, fifo=True, push=True, shared=True, remembers=True
    )

    def __init__(self, world: World, address: Address, store: Store | None = None) -> None:
        super().__init__(world, address)
        key = (address.public, world.generation())  # a forked child starts with nothing
        self.store = store or _stores.setdefault(key, Store(world))

    async def open(self) -> None:
        """Do nothing: there is no server."""

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""

    async def acquire(self, request: Request) -> Grant | Busy:
        now, store, share = self.world.now(), self.store, request.share
        with store.mutex:
            store.changed(now)
            key = key_of(request.name, share)
            name = store.current(key, now)
            if name is None or not (name.records or name.queue):
                name = store.names[key] = Name(1 if share is None else share.limit)
            elif share is not None and name.limit != share.limit:
                raise limits_differ(request.name, name.limit, share.limit)
            waiter, record = name.queue.get(request.owner), name.records.get(request.owner)
            if waiter is not None and request.queue:
                waiter.seen_at, waiter.lapsed = now, False  # it looks, so it is not passed over
            if record is None:
                if name.free < units_of(share) or name.first(now) not in (None, request.owner):
                    return self._busy(request, name, now)
                record = store.give(name, request, now, claimed=True)
            record.claimed = True
            name.shrink(record, share)
            record.ttl, record.expires_at = request.ttl, now + request.ttl
            name.queue.pop(request.owner, None)
            store.hand_on(key, name, now)  # a writer that became a reader lets others in
            return granted(
                request.name, request.owner, record.fence, request.ttl, now, record.share
            )

    def _busy(self, request: Request, name: Name, now: float) -> Busy:
        if request.queue and request.owner not in name.queue:
            name.queue[request.owner] = Waiter(request, now)
        queue = list(name.queue)
        position = queue.index(request.owner) if request.owner in name.queue else len(queue)
        first = min(name.records.values(), key=lambda record: record.expires_at, default=None)
        if first is None:  # there is room, but another waiter is first
            return Busy(LOOK_S, position, request.queue)
        return Busy(min(first.expires_at - now, LOOK_S), position, request.queue, first.meta)

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        now, store = self.world.now(), self.store
        with store.mutex:
            store.changed(now)
            for request in requests:
                name = store.current(key_of(request.name, None), now)
                if name is not None and not (name.free and name.first(now) is None):
                    return request.name, self._busy(request, name, now)
            grants = list[Grant]()
            for request in requests:
                name = store.names.setdefault(key_of(request.name, None), Name(1))
                fence = store.give(name, request, now, claimed=True).fence
                grants.append(granted(request.name, request.owner, fence, request.ttl, now))
            return grants

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        with self.store.mutex:
            return [self._extend(grant, now) for grant in grants]

    def _extend(self, grant: Grant, now: float) -> Grant | Gone:
        name = self.store.current(key_of(grant.name, grant.share), now)
        record = None if name is None else name.records.get(grant.owner)
        if record is not None:
            record.ttl, record.expires_at = grant.ttl, now + grant.ttl
            return granted(grant.name, grant.owner, grant.fence, grant.ttl, now, grant.share)
        if grant.owner in self.store.revoked:
            return Gone("revoked", self.store.revoked.pop(grant.owner))
        return Gone("expired", "its record is gone from the engine")

    async def release(self, grant: Grant) -> bool:
        with self.store.mutex:
            key = key_of(grant.name, grant.share)
            return self.store.leave(key, grant.owner, self.world.now())

    async def withdraw(self, request: Request) -> None:
        with self.store.mutex:
            key = key_of(request.name, request.share)
            self.store.leave(key, request.owner, self.world.now())

    async def watch(self, request: Request, signal: Signal) -> None:
        self.store.signals[request.owner] = signal

    async def unwatch(self, request: Request) -> None:
        self.store.signals.pop(request.owner, None)

    async def announce(self, name: str) -> None:
        with self.store.mutex:
            for observed, signal in self.store.observers:
                if observed == name:
                    signal.set()

    async def observe(self, name: str, signal: Signal) -> None:
        with self.store.mutex:
            self.store.observers.append((name, signal))

    async def unobserve(self, name: str, signal: Signal) -> None:
        with self.store.mutex:
            self.store.observers.remove((name, signal))

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        now = self.world.now()
        with self.store.mutex:
            self.store.changed(now)
            items, until = self._memo(name, now)
            items[item] = max(number, items.get(item, number))
            self.store.remembered[name] = Memo(items, max(until, now + keep))

    async def recall(self, name: str) -> Mapping[str, int]:
        with self.store.mutex:
            return dict(self._memo(name, self.world.now()).items)

    async def forget(self, name: str) -> None:
        with self.store.mutex:
            self.store.remembered.pop(name, None)

    def _memo(self, name: str, now: float) -> Memo:
        """Return the memo of a name; drop one that was kept long enough."""
        memo = self.store.remembered.get(name)
        if memo is not None and memo.until > now:
            return memo
        self.store.remembered.pop(name, None)
        return Memo({}, now)

    async def inspect(self, name: str) -> State:
        now = self.world.now()
        with self.store.mutex:
            holders, names = self._holdings([name], now), self.store.names
            found = [names[kind, name] for kind in KINDS if (kind, name) in names]
            waiters = [
                Waiting(now - w.since, json.loads(w.request.meta), role_of(w.request.share))
                for each in found
                for w in each.queue.values()
            ]
            semaphore = names.get(("semaphore", name))
            return State(
                name, tuple(holders), tuple(waiters), semaphore.limit if semaphore else None
            )

    async def revoke(self, name: str, reason: str) -> bool:
        now, store = self.world.now(), self.store
        with store.mutex:
            revoked = False
            for key in [(kind, name) for kind in KINDS]:
                found = store.current(key, now)
                holders = [] if found is None else list(found.records.values())
                for record in [record for record in holders if record.claimed]:
                    store.revoked = dict([*store.revoked.items(), (record.owner, reason)][-1000:])
                    revoked = store.leave(key, record.owner, now) or revoked
            return revoked

    async def scan(self, prefix: str) -> list[Holding]:
        now = self.world.now()
        with self.store.mutex:
            names = {name for _, name in self.store.names if name.startswith(prefix)}
            return self._holdings(sorted(names), now)

    async def diagnose(self) -> list[Finding]:
        advice = "use sqlite:/// for the processes of one machine"
        return [Finding("warning", "scope", "these locks exist within one process only", advice)]

    def _holdings(self, names: Iterable[str], now: float) -> list[Holding]:
        """Return the holders of these names, of each kind; hand on what has expired."""
        holdings: list[Holding] = []
        for key in [(kind, name) for name in names for kind in KINDS]:
            found = self.store.current(key, now)
            records = {} if found is None else found.records
            for r in records.values():
                if r.claimed:
                    age, left, meta = now - r.since, r.expires_at - now, json.loads(r.meta)
                    share = share_shown(r.share)
                    holdings.append(Holding(key[1], r.fence, r.ttl, age, left, meta, *share))
        return holdings
