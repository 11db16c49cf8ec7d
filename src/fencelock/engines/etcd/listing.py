"""List the holders and waiters of names, for inspection.

etcd stores no times, only the remaining TTL of a lease. The age of a hold is counted on the wall
clock from the moment its contender joined the queue, and is for display: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from ...model import Holding, Meta, Role, State, Waiting
from ...world import World
from .cluster import Cluster
from .keys import Keys, age_and_meta
from .messages import replies, requests
from .messages.requests import LEASE_LOOK, RANGE
from .share_keys import ShareKey, is_downgraded, read_share_key

PAGE = 500
UNLEASED: Meta = {"note": "a key without a lease: it stays until somebody deletes it"}

_MUTEX: tuple[Role, None, None] = ("lock", None, None)


class Shared(NamedTuple):
    """A contender for a semaphore or a read/write lock."""

    pair: replies.KeyValue
    key: ShareKey
    holds: bool

    @property
    def role(self) -> Role:
        return "read" if is_downgraded(self.pair.value) else self.key.role


class Listing:
    """Reads holders and waiters, and changes nothing."""

    def __init__(self, world: World, cluster: Cluster, keys: Keys) -> None:
        self._world = world
        self._cluster = cluster
        self._keys = keys

    async def contenders(self, name: str) -> list[replies.KeyValue]:
        """Read the keys of all contenders for a mutex, the holder first."""
        name_requests = self._keys.requests(name)
        found = [pair async for pair in self._read(name_requests.lower, name_requests.upper)]
        return self._keys.contenders(name, found)

    async def ttl(self, lease: int) -> float:
        """Read the granted TTL of a lease."""
        return float((await self._lease(lease)).granted_ttl)

    async def shares(self, name: str) -> list[Shared]:
        """Read all contenders for the semaphore and the read/write lock of a name."""
        prefix = self._keys.name_prefix(name)
        found = [pair async for pair in self._read(prefix, _end_of(prefix))]
        return _sort_out(found, len(prefix))

    async def inspect(self, name: str) -> State:
        contenders, shared = await self.contenders(name), await self.shares(name)
        leases = await self._leases([*contenders[:1], *(one.pair for one in shared if one.holds)])
        holding = None
        if contenders:
            holding = self._holding(name, contenders[0], leases[contenders[0].lease])
        if holding is None:
            contenders = []
        now = self._world.wall_us()
        holders = [holding, *self._shared_holdings(name, shared, leases)]
        waiters = [Waiting(*age_and_meta(pair.value, now)) for pair in contenders[1:]]
        waiters += [
            Waiting(*age_and_meta(one.pair.value, now), one.role) for one in shared if not one.holds
        ]
        limit = next((one.key.limit for one in shared if one.key.limit is not None), None)
        return State(name, tuple(filter(None, holders)), tuple(waiters), limit)

    async def scan(self, prefix: str) -> list[Holding]:
        start = self._keys.prefix + prefix.encode()
        first: dict[str, replies.KeyValue] = {}
        async for pair in self._read(start, _end_of(start)):
            name = self._keys.name_of(pair)
            if name is not None and (name not in first or pair.created < first[name].created):
                first[name] = pair
        by_name = await self._shared_by_name(prefix)
        held = [one.pair for shared in by_name.values() for one in shared if one.holds]
        leases = await self._leases([*first.values(), *held])
        shown: list[Holding | None] = []
        for name in sorted({*first, *by_name}):
            if name in first:
                shown.append(self._holding(name, first[name], leases[first[name].lease]))
            shown += self._shared_holdings(name, by_name.get(name, []), leases)
        return [holding for holding in shown if holding is not None]

    async def _shared_by_name(self, prefix: str) -> dict[str, list[Shared]]:
        """Read all contenders for semaphores and read/write locks, by name."""
        start, by_name = (
            self._keys.names_prefix + prefix.encode(),
            dict[bytes, list[replies.KeyValue]](),
        )
        async for pair in self._read(start, _end_of(start)):
            name = pair.key[len(self._keys.names_prefix) :].partition(b"\0")[0]
            by_name.setdefault(name, []).append(pair)
        return {
            name.decode(errors="replace"): _sort_out(pairs, len(self._keys.names_prefix + name) + 1)
            for name, pairs in by_name.items()
        }

    def _shared_holdings(
        self, name: str, shared: list[Shared], leases: dict[int, replies.LeaseReply]
    ) -> list[Holding | None]:
        return [
            self._holding(name, one.pair, leases[one.pair.lease], one)
            for one in shared
            if one.holds
        ]

    def _holding(
        self,
        name: str,
        pair: replies.KeyValue,
        lease: replies.LeaseReply,
        shared: Shared | None = None,
    ) -> Holding | None:
        age, meta = age_and_meta(pair.value, self._world.wall_us())
        share = _MUTEX if shared is None else (shared.role, shared.key.slot, shared.key.limit)
        if not pair.lease:
            return Holding(name, pair.created, 0.0, age, 0.0, UNLEASED, *share)
        if lease.ttl < 0:
            return None  # it has expired since the key was read
        ttl = float(lease.granted_ttl)
        remaining = min(lease.ttl + 1.0, ttl)  # etcd rounds down: this is the most that can remain
        return Holding(name, pair.created, ttl, age, remaining, meta, *share)

    async def _leases(self, pairs: list[replies.KeyValue]) -> dict[int, replies.LeaseReply]:
        return {lease: await self._lease(lease) for lease in {pair.lease for pair in pairs}}

    async def _lease(self, lease: int) -> replies.LeaseReply:
        if not lease:
            return replies.LeaseReply(0, 0)
        answer = await self._cluster.call(LEASE_LOOK, requests.lease_named(lease), reads=True)
        return replies.read_lease(answer)

    async def _read(self, start: bytes, end: bytes) -> AsyncIterator[replies.KeyValue]:
        """Read all key-value pairs from ``start`` up to ``end`` at one revision, page by page."""
        revision, more = 0, True
        while more:
            page = requests.range_of(start or b"\0", end, limit=PAGE, revision=revision)
            found = replies.read_range(await self._cluster.call(RANGE, page, reads=True))
            for pair in found.pairs:
                yield pair
            more = found.more and bool(found.pairs)
            if more:
                revision, start = revision or found.revision, found.pairs[-1].key + b"\0"


def _sort_out(pairs: list[replies.KeyValue], start: int) -> list[Shared]:
    """Sort contenders by create revision and tell holders from waiters; ``start`` is the length of
    the prefix of each key.

    In the queue of a read/write lock the first contender holds; if it reads, all readers before the
    first writer hold as well.
    """
    shared: list[Shared] = []
    written, held = False, False
    for pair in sorted(pairs, key=lambda pair: pair.created):
        key = read_share_key(pair.key[start:])
        if key is None:
            continue
        if key.kind == "semaphore":
            shared.append(Shared(pair, key, key.slot is not None))
            continue
        writes = key.role == "write" and not is_downgraded(pair.value)
        shared.append(Shared(pair, key, not held or not (writes or written)))
        written, held = written or writes, True
    return shared


def _end_of(prefix: bytes) -> bytes:
    """Return the end of the range of keys that begin with a prefix; a zero byte, etcd's "to the
    last key", if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\0"
