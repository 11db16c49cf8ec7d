"""List who holds and who waits, for people who inspect locks.

etcd knows no times, only what is left of a lease. The age of a hold is counted on the wall clock
from when its contender joined the queue, and is for people to read: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...model import Holding, Meta, State, Waiting
from ...world import World
from .cluster import Cluster
from .keys import Keys, age_and_meta
from .messages import replies, requests
from .messages.requests import LEASE_LOOK, RANGE

PAGE = 500
UNLEASED: Meta = {"note": "a key without a lease: it stays until somebody deletes it"}


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

    async def inspect(self, name: str) -> State:
        contenders = await self.contenders(name)
        if not contenders:
            return State(name)
        holding = self._holding(name, contenders[0], await self._lease(contenders[0].lease))
        now = self._world.wall_us()
        waiters = tuple(Waiting(*age_and_meta(pair.value, now)) for pair in contenders[1:])
        return State(name, (holding,), waiters) if holding is not None else State(name)

    async def scan(self, prefix: str) -> list[Holding]:
        start = self._keys.prefix + prefix.encode()
        first: dict[str, replies.KeyValue] = {}
        async for pair in self._read(start, _end_of(start)):
            name = self._keys.name_of(pair)
            if name is not None and (name not in first or pair.created < first[name].created):
                first[name] = pair
        leases = {pair.lease: await self._lease(pair.lease) for pair in first.values()}
        shown = [
            self._holding(name, first[name], leases[first[name].lease]) for name in sorted(first)
        ]
        return [holding for holding in shown if holding is not None]

    def _holding(
        self, name: str, pair: replies.KeyValue, lease: replies.LeaseReply
    ) -> Holding | None:
        age, meta = age_and_meta(pair.value, self._world.wall_us())
        if not pair.lease:
            return Holding(name, pair.created, 0.0, age, 0.0, UNLEASED)
        if lease.ttl < 0:
            return None  # it has ended since the key was read
        remaining = float(min(lease.ttl + 1, lease.granted_ttl))  # etcd rounds down: at most this
        return Holding(name, pair.created, float(lease.granted_ttl), age, remaining, meta)

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


def _end_of(prefix: bytes) -> bytes:
    """Return the first key behind all that begin with a prefix; a zero byte is the end of all."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\0"
