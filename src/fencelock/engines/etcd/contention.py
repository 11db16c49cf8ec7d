"""Contend for a name with several holders: the steps that semaphores and read/write locks share.

A key is registered before the request that puts it is sent; a request that was not answered may
still put it. The read after each wait shows whether the key, and so its lease, still exists.
"""

from __future__ import annotations

from ...errors import EngineError
from ...model import Busy, Grant, Request
from ...world import World
from .cluster import LeaseGone
from .keys import attach, delete_created, meta_text
from .lease import Leases
from .messages import replies
from .messages.replies import KeyValue, RangeReply, TxnReply
from .messages.requests import RANGE, TXN
from .own_key import Awaited, Lease, OwnKey
from .own_keys import LOOK_S, OwnKeys
from .queue import Queue
from .share_keys import ShareKeys


class Contention:
    """The steps of one client to get a share of a name, of either kind."""

    def __init__(self, world: World, leases: Leases, own_keys: OwnKeys, queue: Queue) -> None:
        self._world = world
        self._leases = leases
        self._queue = queue
        self._cluster = queue.cluster
        self.own_keys = own_keys
        self.keys = ShareKeys(queue.keys)

    async def lease(self, request: Request) -> Lease:
        """Return a lease that a grant can be made on."""
        now = self._world.now()
        lease = self._leases.ready.get(request.ttl)
        if lease is None or not lease.is_ready(now):
            lease = await self._leases.fresh(request.ttl)
        lease.used_at = now
        return lease

    async def put(self, own: OwnKey, transaction: bytes) -> TxnReply:
        """Send a transaction that puts a key of ours, and return its reply."""
        now, lease = self._world.now(), own.lease
        own.until = now + lease.ttl
        own.unanswered += 1  # until the reply, whatever ends this call, it may take effect
        own.extension = lease.extension
        try:
            answer = await self._cluster.transact(transaction, now)
        except LeaseGone:
            self.own_keys.forget(own, certain=True)
            raise self._leases.ended(lease) from None
        except EngineError:
            own.unanswered -= 1
            if own.former is None:
                self.own_keys.forget(own)
            else:
                self.own_keys.unclaimed(own)
            raise
        own.unanswered -= 1
        return replies.read_txn(answer)

    async def rewrite(self, own: OwnKey, transaction: bytes) -> bool:
        """Send a transaction that changes the value of our key; return False if the key is gone."""
        own.rewritten = own.created  # first: the reply may be lost
        answer = await self._cluster.transact(transaction, self._world.now())
        if not replies.succeeded(answer):
            self.own_keys.forget(own)
            return False
        return True

    async def look(self, own: OwnKey, transaction: bytes) -> TxnReply | None:
        """Send a transaction that reads the queue for an owner; None if its key or lease is gone.

        The first range of the transaction must be the owner's key.
        """
        if own.lease.wants_extension(self._world.now()):
            try:
                await self._leases.extend(own.lease)
            except LeaseGone:
                return None
        own.extension = own.lease.extension
        reply = replies.read_txn(await self._cluster.call(TXN, transaction, reads=True))
        mine = reply.found[0].pairs
        if not mine or mine[0].created != own.created:
            self.own_keys.forget(own)  # it was deleted, or its lease has ended
            return None
        if mine[0].lease != own.lease.id:  # another client took it over: take it back
            await self._cluster.call(TXN, attach(own.key, own.created, own.lease.id))
        return reply

    async def read(self, request: bytes) -> RangeReply:
        """Read a range."""
        return replies.read_range(await self._cluster.call(RANGE, request, reads=True))

    async def granted(self, request: Request, own: OwnKey, asked_at: float) -> Grant:
        """Make the grant, once a linearizable read confirms the lease's last extension."""
        if not own.lease.confirm(self._cluster.epoch, own.extension):
            await self._leases.extend_confirmed(own.lease)
        return own.grant(request.name, asked_at)

    def wait(self, own: OwnKey, awaited: Awaited, position: int | None, first: RangeReply) -> Busy:
        """Watch what the key has to wait for, and return Busy."""
        return self.own_keys.wait(own, awaited, position, holder_of(first))

    async def leave(self, request: Request, answer: Grant | Busy) -> Grant | Busy:
        """Leave the queue again if the result is Busy and the request does not wait."""
        if isinstance(answer, Grant) or request.queue or request.waits:
            return answer
        await self.withdraw(request)
        return answer._replace(queued=False)

    def refused(self, own: OwnKey, position: int | None, first: RangeReply) -> Busy:
        """Forget a key that was not put, and return Busy."""
        self.own_keys.forget(own)
        return Busy(LOOK_S, position, False, holder_of(first))

    def now(self) -> float:
        return self._world.now()

    async def withdraw(self, request: Request) -> None:
        """Delete the key of an owner, wherever in the queue it is."""
        own = self.own_keys.by_owner.get(request.owner)
        if own is None:
            return  # no put was sent, or the key is certain to be gone
        try:
            for deletion in own.deletions(on_lease=False):
                await self._cluster.call(TXN, deletion)
        except BaseException:
            own.until = self._world.now()  # the job of ``Leases`` retries
            raise
        self.own_keys.forget(own)

    async def release(self, grant: Grant) -> bool:
        """Delete the key of a grant if it has the create revision of the grant."""
        own = self.own_keys.of(grant)
        pair: OwnKey | KeyValue | None = own or await self._queue.find(grant)
        if pair is None:
            return False
        deletion = delete_created(pair.key, grant.fence)
        freed = replies.succeeded(await self._cluster.transact(deletion, self._world.now()))
        if own is not None:
            self.own_keys.forget(own)
        return freed


def holder_of(first: RangeReply) -> str:
    """Return the meta of the first holder."""
    return meta_text(first.pairs[0].value) if first.pairs else ""
