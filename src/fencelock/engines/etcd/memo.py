"""Remember numbers for names: one key for a name, on an etcd lease of its own.

Whoever writes compares the revision at which it has read the key, so that nobody's number is lost.
The lease lasts as long as the longest that was asked for, and is extended by all who write. Where
somebody asks for longer, the key is put on a new one; nothing can be put on the old lease from then
on, because whoever would has read an older revision, and so it is revoked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from ...errors import FencelockError, Unavailable
from ...world import World, sleep
from .cluster import Cluster, LeaseGone
from .keys import Keys
from .messages import replies, requests
from .messages.requests import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, MODIFIED, RANGE, TXN
from .wire import RENEWAL

TRIES = 200  # each that fails means that another client has written
PAUSE_S = 0.002  # the longest, times the tries so far
PAUSE_MAX_S = 0.1


class Memo(NamedTuple):
    """What is remembered for a name, and where."""

    modified: int
    """The revision of its last change; 0 when there is none."""
    lease: int
    keep: int
    """How long its lease lasts when it is extended, in seconds."""
    items: dict[str, int]


class Memos:
    """What is remembered, for one client."""

    def __init__(self, world: World, cluster: Cluster, keys: Keys) -> None:
        self._world = world
        self._cluster = cluster
        self._keys = keys

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        """Write a number down unless a higher one is there, and keep all for so long from now."""
        seconds = max(ceil(keep), 1)
        for tries in range(TRIES):
            if tries:
                longest = min(PAUSE_S * tries, PAUSE_MAX_S)
                await sleep(self._world, longest * self._world.random())
            if await self._write(name, await self._read(name), item, number, seconds):
                return
        raise Unavailable(
            f"other clients wrote what is remembered for {name!r} all the time; nothing happened. "
            "Try again"
        )

    async def _write(self, name: str, memo: Memo, item: str, number: int, seconds: int) -> bool:
        """Write what is remembered if nobody else has meanwhile."""
        lease, keep, epoch = memo.lease, memo.keep, self._cluster.epoch
        if keep < seconds:
            lease, keep = await self._grant(seconds)
        elif not await self._extend(lease):
            return False
        items = {**memo.items, item: max(number, memo.items.get(item, number))}
        key = self._key(name)
        same = requests.equal(MODIFIED, key, memo.modified)
        changes = []
        if (lease, items) != (memo.lease, memo.items):
            value = json.dumps({"keep": keep, "items": items}, ensure_ascii=False).encode()
            changes = [requests.do_put(requests.put(key, value, lease))]
        try:
            answer = await self._cluster.call(TXN, requests.txn([same], changes))
        except LeaseGone:
            return False
        written = replies.succeeded(answer)
        if lease != memo.lease:
            await self._revoke(memo.lease if written else lease)
        # A member that is the leader no more may have extended it: see own_keys.py.
        return written and (lease != memo.lease or epoch == self._cluster.epoch)

    async def recall(self, name: str) -> Mapping[str, int]:
        return (await self._read(name)).items

    async def forget(self, name: str) -> None:
        """Delete the key; its lease is of no use to anybody then."""
        key = self._key(name)
        steps = [
            requests.do_range(requests.range_of(key)),
            requests.do_delete(requests.delete(key)),
        ]
        reply = replies.read_txn(await self._cluster.call(TXN, requests.txn([], steps)))
        for pair in reply.found[0].pairs:
            await self._revoke(pair.lease)

    def _key(self, name: str) -> bytes:
        return self._keys.room(name) + b"memo"

    async def _read(self, name: str) -> Memo:
        request = requests.range_of(self._key(name))
        found = replies.read_range(await self._cluster.call(RANGE, request, reads=True))
        if not found.pairs:
            return Memo(0, 0, 0, {})
        pair = found.pairs[0]
        said = json.loads(pair.value)
        return Memo(pair.modified, pair.lease, said["keep"], said["items"])

    async def _grant(self, seconds: int) -> tuple[int, int]:
        """Make a lease; return its id and how long it lasts."""
        answer = await self._cluster.call(LEASE_GRANT, requests.lease_grant(seconds))
        reply = replies.read_lease(answer)
        return reply.id, reply.ttl

    async def _extend(self, lease: int) -> bool:
        """Extend a lease; False when it has ended."""
        request = requests.lease_named(lease)
        answer = await self._cluster.call(LEASE_KEEP_ALIVE, request, reads=True, channel=RENEWAL)
        return replies.read_lease(answer).ttl > 0

    async def _revoke(self, lease: int) -> None:
        """End a lease that no key is on."""
        if lease:
            try:
                await self._cluster.call(LEASE_REVOKE, requests.lease_named(lease))
            except FencelockError:
                pass  # it ends by itself
