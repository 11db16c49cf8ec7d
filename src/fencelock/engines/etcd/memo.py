"""Remember numbers for names: one key for each name, on an etcd lease of its own.

Each write compares the mod revision of the key with the one it has read, so that no number is lost.
The ttl of the lease is the longest that was requested, and each write extends it. A write that
needs a longer one puts the key on a new lease; from then on nothing can be put on the old lease,
because its writer would have read an older revision, and so the old lease is revoked.
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
PAUSE_S = 0.002  # the longest pause, times the tries so far
PAUSE_MAX_S = 0.1


class Memo(NamedTuple):
    """The numbers of one name, and the lease of their key."""

    modified: int
    """The key's mod revision; 0 if there is no key."""
    lease: int
    keep: int
    """The granted ttl of its lease, in seconds."""
    items: dict[str, int]


class Memos:
    """Reads and writes the remembered numbers, for one client."""

    def __init__(self, world: World, cluster: Cluster, keys: Keys) -> None:
        self._world = world
        self._cluster = cluster
        self._keys = keys

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        """Store a number unless a higher one is stored; keep the name's numbers for ``keep`` s."""
        seconds = max(ceil(keep), 1)
        for tries in range(TRIES):
            if tries:
                longest = min(PAUSE_S * tries, PAUSE_MAX_S)
                await sleep(self._world, longest * self._world.random())
            if await self._write(name, await self._read(name), item, number, seconds):
                return
        raise Unavailable(
            f"what is remembered for {name!r} was changed on every attempt; nothing happened. "
            "Try again"
        )

    async def _write(self, name: str, memo: Memo, item: str, number: int, seconds: int) -> bool:
        """Put the numbers of a name if its key has not changed since; return whether they are
        certain to last for ``seconds``."""
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
        # A former leader may have extended it: see own_keys.py.
        return written and (lease != memo.lease or epoch == self._cluster.epoch)

    async def recall(self, name: str) -> Mapping[str, int]:
        return (await self._read(name)).items

    async def forget(self, name: str) -> None:
        """Delete the key, and revoke its lease, which no other key uses."""
        key = self._key(name)
        steps = [
            requests.do_range(requests.range_of(key)),
            requests.do_delete(requests.delete(key)),
        ]
        reply = replies.read_txn(await self._cluster.call(TXN, requests.txn([], steps)))
        for pair in reply.found[0].pairs:
            await self._revoke(pair.lease)

    def _key(self, name: str) -> bytes:
        return self._keys.name_prefix(name) + b"memo"

    async def _read(self, name: str) -> Memo:
        request = requests.range_of(self._key(name))
        found = replies.read_range(await self._cluster.call(RANGE, request, reads=True))
        if not found.pairs:
            return Memo(0, 0, 0, {})
        pair = found.pairs[0]
        said = json.loads(pair.value)
        return Memo(pair.modified, pair.lease, said["keep"], said["items"])

    async def _grant(self, seconds: int) -> tuple[int, int]:
        """Make a lease; return its id and its granted ttl."""
        answer = await self._cluster.call(LEASE_GRANT, requests.lease_grant(seconds))
        reply = replies.read_lease(answer)
        return reply.id, reply.ttl

    async def _extend(self, lease: int) -> bool:
        """Extend a lease; return False if it has ended."""
        request = requests.lease_named(lease)
        answer = await self._cluster.call(LEASE_KEEP_ALIVE, request, reads=True, channel=RENEWAL)
        return replies.read_lease(answer).ttl > 0

    async def _revoke(self, lease: int) -> None:
        """Revoke a lease that no key is attached to."""
        if lease:
            try:
                await self._cluster.call(LEASE_REVOKE, requests.lease_named(lease))
            except FencelockError:
                pass  # it ends by itself
