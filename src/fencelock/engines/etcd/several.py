"""Acquire several locks in one transaction, which compares all names before it puts a key for each.

A key is registered before the request that puts it is sent, as for one lock. All keys are attached
to one lease, and the revision of the transaction is the fence of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import EngineError
from ...model import Busy, Grant, Request, Together
from .cluster import Cluster, LeaseGone, go_on
from .contention import Contention
from .keys import Keys, meta_text
from .lease import Leases
from .messages import replies, requests
from .own_keys import LOOK_S

OPERATIONS_MAX = 100  # a server takes 128 in a transaction by default (--max-txn-ops)


class Several:
    """Acquires and releases several mutexes of one client at once."""

    def __init__(
        self,
        contention: Contention,
        cluster: Cluster,
        leases: Leases,
        keys: Keys,
    ) -> None:
        self._cluster = cluster
        self._leases = leases
        self._own_keys = contention.own_keys
        self._keys = keys
        self._contention = contention

    async def acquire(self, wanted: Sequence[Request]) -> Together:
        """Put a key for each name if no name has a contender; else return the first name that has
        one.

        None if only names below one of these have contenders: the comparison covers those too.
        """
        if len(wanted) > OPERATIONS_MAX:
            return None
        asked_at = self._contention.now()
        lease = await self._contention.lease(wanted[0])
        owns = [self._own_keys.take(request, lease) for request in wanted]
        names = [self._keys.requests(request.name) for request in wanted]
        for own in owns:
            own.until = asked_at + lease.ttl
            own.unanswered += 1  # until the reply, whatever ends this call, it may take effect
            own.extension = lease.extension
        transaction = requests.txn(
            [name.nobody for name in names],
            [requests.do_put(own.put()) for own in owns],
            [requests.do_range(name.first) for name in names],
        )
        try:
            answer = await self._cluster.transact(transaction, asked_at)
        except LeaseGone:
            for own in owns:
                self._own_keys.forget(own, certain=True)
            raise self._leases.ended(lease) from None
        except EngineError:
            for own in owns:
                own.unanswered -= 1
                self._own_keys.forget(own)
            raise
        created = replies.read_success(answer)
        for own in owns:
            own.unanswered -= 1
            own.created = created
            if not created:
                self._own_keys.forget(own)
        if not created:
            return self._first_busy(wanted, replies.read_txn(answer).found)
        return [
            await go_on(request, self._contention.granted(request, own, asked_at))
            for request, own in zip(wanted, owns, strict=True)
        ]

    def _first_busy(
        self, wanted: Sequence[Request], found: Sequence[replies.RangeReply]
    ) -> tuple[str, Busy] | None:
        for request, first in zip(wanted, found, strict=True):
            if contenders := self._keys.contenders(request.name, first.pairs):
                return request.name, Busy(LOOK_S, None, False, meta_text(contenders[0].value))
        return None

    async def release(self, grants: Sequence[Grant]) -> list[bool] | None:
        """Delete the keys of all grants if each has the create revision of its grant; else None."""
        owns = [self._own_keys.by_owner.get(grant.owner) for grant in grants]
        keys = [own.key for own in owns if own is not None]
        if len(keys) < len(grants) or len(grants) > OPERATIONS_MAX:
            return None
        transaction = requests.txn(
            [
                requests.equal(requests.CREATED, key, grant.fence)
                for key, grant in zip(keys, grants, strict=True)
            ],
            [requests.do_delete(requests.delete(key)) for key in keys],
        )
        answer = await self._cluster.transact(transaction, self._contention.now())
        if not replies.succeeded(answer):
            return None  # one of them is gone: each is released by itself
        for own in owns:
            if own is not None:
                self._own_keys.forget(own)
        return [True for _ in grants]
