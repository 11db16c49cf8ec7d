"""Renew grants: one keep-alive for many keys, and a check that each key still exists.

A renewal never takes a lock again. A key that is gone, or that has another create revision, is a
lost lock; the reason of a revocation is under a separate key, named after the owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Gone, Grant, granted
from ...world import World
from .cluster import Cluster, LeaseGone
from .keys import Keys, attach, owner_of
from .lease import Leases
from .listing import Listing
from .messages import replies, requests
from .messages.requests import LEASE_GRANT, RANGE, TXN
from .own_key import Lease
from .own_keys import OwnKeys
from .queue import Queue

CHECKS_MAX = 100  # comparisons in one transaction: etcd takes 128 by default
REASON_MIN_S, REASON_MAX_S = 60, 86_400  # how long the reason of a revocation is kept
LATE = Gone("expired", "its ttl was over before it was renewed")


class Renewal:
    """Renews and revokes grants."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        leases: Leases,
        own_keys: OwnKeys,
        keys: Keys,
        queue: Queue,
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._leases = leases
        self._own_keys = own_keys
        self._keys = keys
        self._queue = queue

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: dict[str, Grant | Gone] = {}
        together: dict[Lease, list[Grant]] = {}
        for grant in grants:
            own = self._own_keys.by_owner.get(grant.owner)
            if own is None or grant.ttl > own.lease.ttl:
                answers[grant.owner] = await self._move(grant)
            else:
                together.setdefault(own.lease, []).append(grant)
        for lease, those in together.items():
            answers.update(await self._renew_together(lease, those))
        return [answers[grant.owner] for grant in grants]

    async def _renew_together(
        self, lease: Lease, grants: Sequence[Grant]
    ) -> dict[str, Grant | Gone]:
        asked_at = self._world.now()
        there: set[str] = set()
        try:
            if lease.ended:
                raise LeaseGone
            for start in range(0, len(grants), CHECKS_MAX):
                there |= await self._check(lease, grants[start : start + CHECKS_MAX], start == 0)
        except LeaseGone:
            return {grant.owner: await self._gone(grant, lease) for grant in grants}
        answers: dict[str, Grant | Gone] = {}
        for grant in grants:
            if grant.owner not in there:
                answers[grant.owner] = await self._gone(grant, lease)
                continue
            own = self._own_keys.by_owner.get(grant.owner)
            if own is not None and not own.extend(asked_at + grant.ttl):
                answers[grant.owner] = LATE
                continue
            name, owner, fence, ttl, _, _, share = grant
            new = granted(name, owner, fence, ttl, asked_at, share)
            answers[grant.owner] = new
        return answers

    async def _check(self, lease: Lease, grants: Sequence[Grant], first: bool) -> set[str]:
        """Return the owners whose keys exist, unchanged; the first call extends the lease, too."""
        own = self._own_keys.by_owner
        keys = {g.owner: (own[g.owner].key, g.fence) for g in grants if g.owner in own}
        same = [requests.equal(requests.CREATED, key, fence) for key, fence in keys.values()]
        one_by_one = [
            requests.do_range(requests.range_of(key, keys_only=True)) for key, _ in keys.values()
        ]
        request = requests.txn(same, [], one_by_one)
        if first:
            answer = await self._leases.extend_confirmed(lease, request)
        else:
            answer = await self._cluster.call(TXN, request, reads=True)
        reply = replies.read_txn(answer)
        if reply.succeeded:
            return {*keys}
        found = {(pair.key, pair.created) for each in reply.found for pair in each.pairs}
        return {owner for owner, key in keys.items() if key in found}

    async def _move(self, grant: Grant) -> Grant | Gone:
        """Attach a key that another client put, or that needs a longer TTL, to a lease of ours."""
        lease = await self._leases.fresh(grant.ttl)
        asked_at = self._world.now()
        await self._leases.extend_confirmed(lease)
        pair = await self._find(grant)
        if pair is None:
            return await self._gone(grant, lease)
        self._own_keys.expect(grant.owner, pair, lease, asked_at + lease.ttl)
        reply = await self._cluster.call(TXN, attach(pair.key, grant.fence, lease.id))
        if not replies.read_txn(reply).succeeded:
            lease.keys.pop(grant.owner, None)
            return await self._gone(grant, lease)
        own = self._own_keys.adopt(grant.owner, pair, lease)
        own.share = own.share or grant.share
        if not own.extend(asked_at + lease.ttl):
            return LATE
        return granted(grant.name, grant.owner, grant.fence, lease.ttl, asked_at, grant.share)

    async def _find(self, grant: Grant) -> replies.KeyValue | None:
        """Return the key of a grant; it is read from etcd if another client has put it."""
        own = self._own_keys.by_owner.get(grant.owner)
        if own is None:
            return await self._queue.find(grant)
        return replies.KeyValue(own.key, grant.fence, own.value, own.lease.id)

    async def revoke(self, name: str, reason: str, listing: Listing) -> bool:
        """Delete the keys of all holders of a name, of every kind, and put the reason for each."""
        contenders = await listing.contenders(name)
        shared = await listing.shares(name)
        holders = [*contenders[:1], *(share.pair for share in shared if share.holds)]
        return any([await self._revoke(holder, reason, listing) for holder in holders])

    async def _revoke(self, holder: replies.KeyValue, reason: str, listing: Listing) -> bool:
        ttl = min(max(await listing.ttl(holder.lease), REASON_MIN_S), REASON_MAX_S)
        lease = replies.read_lease(
            await self._cluster.call(LEASE_GRANT, requests.lease_grant(int(ttl)))
        )
        key = self._keys.revocation(owner_of(holder.value))
        same = requests.equal(requests.CREATED, holder.key, holder.created)
        put = requests.do_put(requests.put(key, reason.encode(), lease.id))
        both = [requests.do_delete(requests.delete(holder.key)), put]
        reply = await self._cluster.call(TXN, requests.txn([same], both))
        return replies.read_txn(reply).succeeded

    async def _gone(self, grant: Grant, lease: Lease) -> Gone:
        """Forget the key of a grant, which no longer exists, and read why."""
        own = self._own_keys.by_owner.get(grant.owner)
        if own is not None and (lease.ended or own.created == grant.fence):
            self._own_keys.forget(own)
        why = requests.range_of(self._keys.revocation(grant.owner))
        found = replies.read_range(await self._cluster.call(RANGE, why, reads=True))
        if found.pairs:
            return Gone("revoked", found.pairs[0].value.decode())
        if lease.ended:
            return Gone("expired", f"its etcd lease of {lease.ttl:g} s has ended")
        return Gone("revoked", "its key was deleted from etcd")
