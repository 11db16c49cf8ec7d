"""Locks in etcd: the recipe of ``etcdctl lock`` and of Go's ``concurrency.Mutex``.

Each contender puts a key under ``<name>/``. The key with the lowest create revision holds the lock,
the others queue in the order of theirs, and each watches only the key before it. Contenders in
other languages that follow the recipe on the same name join the same queue. The create revision is
the fence: revisions grow with every change of the store.

One transaction takes a free lock, or joins the queue and reads its two ends (``_join``). A waiter
watches only the key right before its own (``_wait``). After a wait the queue is read again
(``_look``): our key must still exist, which means that its lease does, and be the first. A release,
or leaving the queue, deletes the key.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from ...engine import EVERY_PROMISE, Address, Engine
from ...errors import EngineError
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Together
from ...world import Signal, World
from .cluster import OPTIONS, Cluster, LeaseGone, go_on
from .contention import Contention
from .keys import JOIN, TRY, Keys, attach, meta_text, owner_of
from .lease import Leases
from .listing import Listing
from .memo import Memos
from .messages import replies
from .messages.requests import TXN
from .own_key import Awaited, OwnKey
from .own_keys import LOOK_S, POLL_S, OwnKeys
from .queue import Ahead, Queue
from .renewal import Renewal
from .rwlock import RWLocks
from .semaphore import Semaphores
from .several import Several
from .watch import Watches

CONTENDED_FOR = 8  # a lock that was busy is expected to be busy for so many acquires


class EtcdEngine(Engine):
    """``etcd://host:2379`` or ``etcd://h1:2379,h2:2379,h3:2379``."""

    schemes = ("etcd",)
    options: ClassVar = OPTIONS
    plain = True
    first_holds = True
    traits = EVERY_PROMISE

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._keys = Keys(str(address.options.get("prefix", "")).encode())
        self._cluster = Cluster.at(world, address)
        self._watches = Watches(world, self._cluster)
        self._leases = Leases(world, self._cluster, self._watches.look, self._watches.observed)
        self._own_keys = OwnKeys(world, self._leases, self._watches, self._keys)
        self._queue = Queue(self._cluster, self._keys)
        self._renewal = Renewal(
            world, self._cluster, self._leases, self._own_keys, self._keys, self._queue
        )
        self._listing = Listing(world, self._cluster, self._keys)
        self._contention = Contention(world, self._leases, self._own_keys, self._queue)
        self._shares: dict[str, RWLocks | Semaphores] = {
            "rwlock": RWLocks(self._contention),
            "semaphore": Semaphores(self._contention),
        }
        self._several = Several(self._contention, self._cluster, self._leases, self._keys)
        self._memos = Memos(world, self._cluster, self._keys)

    async def open(self) -> None:
        await self._cluster.see_majority(self._keys.revocation(""))

    async def close(self) -> None:
        self._watches.close()
        await self._leases.close()
        await self._cluster.wire.close()

    def close_nowait(self) -> None:
        self._watches.close_nowait()
        self._leases.close_nowait()
        self._cluster.wire.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        try:
            return await self._attempt(request)
        except LeaseGone:
            return await self._attempt(request)  # on a fresh lease

    def _attempt(self, request: Request) -> Coroutine[Any, Any, Grant | Busy]:
        if request.share is not None:
            return self._shares[request.share.kind].acquire(request)
        own = self._own_keys.by_owner.get(request.owner)
        if own is None or own.lease.ended or not own.created:
            return self._join(request, request.queue or request.waits)
        return go_on(request, self._look(request, own))

    async def _join(self, request: Request, queues: bool, contended: bool = False) -> Grant | Busy:
        """Take the lock if it has no contender; else join the queue if ``queues``.

        A lock that was free the last few times is first tried with a shorter transaction; if it is
        not free after all, nothing has happened, and a second transaction joins the queue.
        """
        asked_at = self.world.now()
        lease = self._leases.ready.get(request.ttl)
        if lease is None or not lease.is_ready(asked_at):
            lease = await self._leases.fresh(request.ttl)
        lease.used_at = asked_at
        own = self._own_keys.take(request, lease)
        own.until = asked_at + lease.ttl
        encoded = own.transactions or self._keys.transactions(request.name, own.key, lease.id)
        joins = queues and (contended or encoded.contended > 0 or own.unanswered > 0)
        own.unanswered += 1  # until the reply, whatever ends this call, it may take effect
        own.extension = lease.extension
        put = encoded.acquire(own.value, JOIN if joins else TRY)
        try:
            answer = await self._cluster.transact(put, asked_at)
        except LeaseGone:
            self._own_keys.forget(own, certain=True)
            raise self._leases.ended(lease) from None
        except EngineError:
            own.unanswered -= 1
            self._own_keys.forget(own)
            raise
        own.unanswered -= 1
        own.created = replies.read_success(answer)
        if not own.created:
            encoded.contended = CONTENDED_FOR
            if queues and not joins:
                return await self._join(request, queues, True)
            reply = replies.read_txn(answer)
            if not queues:
                return await self._turned_away(request, own, reply.found[0])
            return await go_on(request, self._joined(request, own, reply))
        if encoded.contended:
            encoded.contended -= 1
        epoch = self._cluster.epoch
        if lease.confirmed_in == epoch or lease.confirm(epoch, own.extension):
            return own.grant(request.name, asked_at)
        return await go_on(request, self._contention.granted(request, own, asked_at))

    async def _joined(self, request: Request, own: OwnKey, reply: replies.TxnReply) -> Grant | Busy:
        """Continue after a transaction joined the queue, because the lock has other contenders."""
        ours = [pair for pair in reply.found[2].pairs if pair.value == own.value]
        if not ours:  # another client took over what was ours: leave it, use another key
            self._own_keys.forget(own, keep_key=True)
            return await self._join(request, True)
        own.created = ours[0].created
        if held := self._queue.held_elsewhere(own, reply):
            await self.withdraw(request)
            return await self._take_over(request, held)
        ahead = self._queue.joined(request.name, own, reply)
        if ahead is None or ahead.last is None:
            return await self._look(request, own)
        return await self._wait(own, ahead)

    async def _look(self, request: Request, own: OwnKey) -> Grant | Busy:
        """Check whether we are next: key and lease must exist, and no key be before ours."""
        asked_at = self.world.now()
        if own.lease.wants_extension(asked_at):
            try:
                await self._leases.extend(own.lease)
            except LeaseGone:
                return await self._join(request, request.queue or request.waits)
        own.extension = own.lease.extension
        ahead = await self._queue.ahead(request.name, own)
        if ahead.mine is None:
            self._own_keys.forget(own)  # it was deleted, or its lease has ended
            return await self._join(request, request.queue or request.waits)
        longer = ahead.last is None and own.lease.ttl < request.ttl
        if longer or ahead.mine.lease != own.lease.id:  # another client took it over: take it back
            return await self._take_over(request, ahead.mine._replace(value=own.value))
        if ahead.last is None:
            return await self._contention.granted(request, own, asked_at)
        return await self._wait(own, ahead)

    async def _wait(self, own: OwnKey, ahead: Ahead) -> Busy:
        """Watch the key right before ours."""
        assert ahead.first is not None
        assert ahead.last is not None
        holder = await self._queue.holder(own, ahead.first.key)
        position = None if ahead.total is None else ahead.total - 1
        awaited = Awaited(ahead.last.key, ahead.revision, ahead.is_long)
        return self._own_keys.wait(own, awaited, position, holder)

    async def _turned_away(
        self, request: Request, own: OwnKey, found: replies.RangeReply
    ) -> Grant | Busy:
        """Return Busy to an owner that does not wait, unless the lock proves free or its own."""
        contenders = self._keys.contenders(request.name, found.pairs)
        if found.total > 1:  # waiters, or contenders for names below this one
            contenders = await self._queue.everybody(request.name)
        if not contenders:  # this name has no contender, but names below it have
            answer = await self._join(request, True)
            if isinstance(answer, Busy) and not request.queue:  # another came first: leave
                await self.withdraw(request)
                return answer._replace(queued=False)
            return answer
        head = [pair for pair in found.pairs if pair.key == contenders[0].key]
        if head and owner_of(head[0].value) == request.owner:
            return await self._take_over(request, head[0])
        self._own_keys.forget(own)
        return Busy(LOOK_S, len(contenders) - 1, False, meta_text(head[0].value) if head else "")

    async def _take_over(self, request: Request, pair: replies.KeyValue) -> Grant | Busy:
        """Attach a key of this owner to a lease of ours, as another client put it or our put got no
        reply."""
        asked_at = self.world.now()
        lease = await self._leases.fresh(request.ttl)
        own = self._own_keys.adopt(request.owner, pair, lease)  # first: it may go unanswered
        answer = await self._cluster.call(TXN, attach(pair.key, pair.created, lease.id))
        if not replies.read_txn(answer).succeeded:
            self._own_keys.forget(own)
            return Busy(POLL_S)
        return await self._contention.granted(request, own, asked_at)

    async def withdraw(self, request: Request) -> None:
        await self._contention.withdraw(request)

    async def release(self, grant: Grant) -> bool:
        """Delete the key if it has the create revision of the grant."""
        if grant.share is not None:
            return await self._shares[grant.share.kind].release(grant)
        own = self._own_keys.of(grant)
        pair = own or await self._queue.find(grant)
        if pair is None:
            return False
        encoded = (own and own.transactions) or self._keys.transactions(grant.name, pair.key, 0)
        answer = await self._cluster.transact(encoded.release(grant.fence), self.world.now())
        freed = replies.succeeded(answer)
        if own is not None:
            self._own_keys.forget(own)
        return freed

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        try:
            return await self._several.acquire(requests)
        except LeaseGone:
            return await self._several.acquire(requests)  # on a fresh lease

    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        return await self._several.release(grants)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._own_keys.signals[request.owner] = signal
        own = self._own_keys.by_owner.get(request.owner)
        if own is not None and own.waiting:  # in the queue already: watch from there on
            own.signal = signal
            own.keep_queued(self.world.now(), LOOK_S)
            if not self._watches.arm(own, *own.predecessor):
                signal.set()

    async def unwatch(self, request: Request) -> None:
        self._own_keys.signals.pop(request.owner, None)
        own = self._own_keys.by_owner.get(request.owner)
        if own is not None:
            own.signal = None
            self._watches.disarm(own)
            own.until = min(own.until, self.world.now() + own.lease.ttl)

    async def observe(self, name: str, signal: Signal) -> None:
        """Watch all keys of a name; the watch reports every change, by any program."""
        revision = await self._cluster.revision()
        self._watches.observe(name, signal, self._keys.everything(name), revision)
        self._leases.start()

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._watches.unobserve(name, signal)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._renewal.renew(grants)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._renewal.revoke(name, reason, self._listing)

    async def inspect(self, name: str) -> State:
        return await self._listing.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._listing.scan(prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self.world, self._cluster)

    def comparison(self, grant: Grant) -> tuple[bytes, int, bytes]:
        """Return the comparison for a user's transaction: key, create revision, encoded message."""
        return self._own_keys.comparison(grant)
