"""List who holds and who waits, for people who inspect locks.

etcd knows no times, only what is left of a lease. The age of a hold is counted on the wall clock
from when its contender joined the queue, and is for people to read: nothing is decided by it.
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
    """Reads queues, and changes nothing."""

    def __init__(self, world: World, cluster: Cluster, keys: Keys) -> None:
        self._world = world
        self._cluster = cluster
        self._keys = keys

    async def contenders(self, name: str) -> list[replies.KeyValue]:
        """Read all contenders for a name, the holder first."""
        name_requests = self._keys.requests(name)
        found = [pair async for pair in self._read(name_requests.lower, name_requests.upper)]
        return self._keys.contenders(name, found)

    async def ttl(self, lease: int) -> float:
        """Read the ttl that a lease was granted."""
        return float((await self._lease(lease)).granted_ttl)

    async def shares(self, name: str) -> list[Shared]:
        """Read all contenders for the semaphore and the read/write lock of a name."""
        room = self._keys.room(name)
        found = [pair async for pair in self._read(room, _end_of(room))]
        return _sort_out(found, len(room))

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
        rooms = await self._rooms(prefix)
        held = [one.pair for shared in rooms.values() for one in shared if one.holds]
        leases = await self._leases([*first.values(), *held])
        shown: list[Holding | None] = []
        for name in sorted({*first, *rooms}):
            if name in first:
                shown.append(self._holding(name, first[name], leases[first[name].lease]))
            shown += self._shared_holdings(name, rooms.get(name, []), leases)
        return [holding for holding in shown if holding is not None]

    async def _rooms(self, prefix: str) -> dict[str, list[Shared]]:
        """Read all contenders for semaphores and read/write locks, by name."""
        start, rooms = self._keys.rooms + prefix.encode(), dict[bytes, list[replies.KeyValue]]()
        async for pair in self._read(start, _end_of(start)):
            name = pair.key[len(self._keys.rooms) :].partition(b"\0")[0]
            rooms.setdefault(name, []).append(pair)
        return {
            name.decode(errors="replace"): _sort_out(pairs, len(self._keys.rooms + name) + 1)
            for name, pairs in rooms.items()
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
            return None  # it has ended since the key was read
        ttl = float(lease.granted_ttl)
        remaining = min(lease.ttl + 1.0, ttl)  # etcd rounds down: at most this
        return Holding(name, pair.created, ttl, age, remaining, meta, *share)

    async def _leases(self, pairs: list[replies.KeyValue]) -> dict[int, replies.LeaseReply]:
        return {lease: await self._lease(lease) for lease in {pair.lease for pair in pairs}}

    async def _lease(self, lease: int) -> replies.LeaseReply:
        if not lease:
            return replies.LeaseReply(0, 0)
        answer = await self._cluster.call(LEASE_LOOK, requests.lease_named(lease), reads=True)
        return replies.read_lease(answer)

    async def _read(self, start: bytes, end: bytes) -> AsyncIterator[replies.KeyValue]:
        """Read all pairs from start up to end at one revision, page by page."""
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
    """Tell who holds and who waits, in the order they came; names end at ``start`` in the keys.

    Of a read/write lock the first holds, and all others up to the first that writes, unless that
    is the first.
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
    """Return the first key behind all that begin with a prefix; a zero byte is the end of all."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\0"
