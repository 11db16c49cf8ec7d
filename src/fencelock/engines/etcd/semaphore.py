"""Semaphores in etcd: a key for each slot that is taken, and a queue of waiters.

* A free slot is taken by one transaction: if nobody waits, all lower slots are taken and this one
  is not, our key is put in it. The slot is guessed from the last acquire; if the guess is wrong,
  the reply lists the taken slots, and the transaction is sent again.
* Else a key is put into the queue. A waiter that is not the first there watches the key before its
  own. The first watches the slots: when one becomes free, one transaction deletes its key in the
  queue and puts one in the slot. So newcomers never overtake, and no slot has two holders.
* The fence is the create revision of the key in the slot: it is above that of all earlier holders
  of the slot, however long the holder had waited.
* The limit is a part of all keys. No key can be put while there is one with another limit.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...model import Busy, Grant, Request, Share, limits_differ
from .cluster import go_on
from .contention import Contention
from .keys import KEPT_MAX
from .messages.replies import RangeReply, TxnReply
from .messages.requests import range_of
from .own_key import Awaited, OwnKey
from .own_keys import POLL_S
from .share_keys import SemaphoreKeys, lowest_free, slot_of

TRIES = 20  # to take a slot that others may take at the same time


class Semaphores:
    """The semaphores of one client."""

    def __init__(self, contention: Contention) -> None:
        self._contention = contention
        self._own_keys = contention.own_keys
        self._keys = contention.keys
        self._guesses: dict[tuple[str, int], int] = {}
        """The slot that is probably the lowest free one, by name and limit."""

    def acquire(self, request: Request) -> Coroutine[Any, Any, Grant | Busy]:
        own = self._own_keys.by_owner.get(request.owner)
        if own is None or own.lease.ended or own.share is None:
            return self._take(request)
        if own.share.limit != _share_of(request).limit:
            raise limits_differ(request.name, own.share.limit, _share_of(request).limit)
        if own.former is not None:
            return go_on(request, self._claim(request, own))
        if not own.created:
            return self._take(request) if own.share.slot is not None else self._join(request)
        return go_on(request, self._look(request, own))

    async def _take(self, request: Request) -> Grant | Busy:
        """Take a free slot if nobody waits; else join the queue, if the request waits.

        If our key already exists, it was put by a request that was never answered.
        """
        keys = self._of(request)
        slot, queues = self._guess(request), request.queue or request.waits
        if slot >= keys.limit and queues and request.owner not in self._own_keys.by_owner:
            return await self._join(request)
        busy = Busy(POLL_S)
        for _ in range(TRIES):
            asked_at, lease = self._contention.now(), await self._contention.lease(request)
            slot = min(slot, keys.limit - 1)
            share = _share_of(request)._replace(slot=slot)
            own = self._own_keys.take_share(request, keys.slot(slot)[0], lease, share)
            reply = await self._contention.put(own, keys.take(own, _slot_of(own)))
            mine, waiting, taken, first = reply.found or [_NONE] * 4
            if reply.succeeded or any(pair.value == own.value for pair in mine.pairs):
                own.created = reply.revision if reply.succeeded else mine.pairs[0].created
                return await go_on(request, self._granted(request, own, asked_at))
            if not waiting.pairs and not taken.pairs:
                await self._check_limit(request, own)
            busy = self._contention.refused(own, waiting.total, first)
            slot = await self._lowest_free(keys, taken)
            self._remember(request, slot)
            if waiting.pairs or slot >= keys.limit:
                break
        return await self._join(request) if queues else busy

    async def _join(self, request: Request) -> Grant | Busy:
        """Join the queue."""
        keys = self._of(request)
        lease = await self._contention.lease(request)
        own = self._own_keys.take_share(request, keys.queue[0], lease, _share_of(request))
        reply = await self._contention.put(own, keys.join(own))
        mine = reply.found[0].pairs
        if not mine:
            await self._check_limit(request, own)
            return self._contention.refused(own, None, reply.found[3])
        if mine[0].value != own.value:  # another client took over what was ours: leave it
            self._own_keys.forget(own, keep_key=True)
            return await self._join(request)
        own.created = mine[0].created
        if own.created != reply.revision:
            return await go_on(request, self._look(request, own))
        return await go_on(request, self._go_on(request, own, reply, reply.found[1].total - 1))

    async def _look(self, request: Request, own: OwnKey) -> Grant | Busy:
        """Check whether our key is the first in the queue and a slot is free, or, for a holder,
        whether its key exists."""
        asked_at, keys = self._contention.now(), self._of(request)
        reply = await self._contention.look(own, keys.look(own))
        if reply is None:
            return await self._take(request)
        if own.share is not None and own.share.slot is not None:
            return await self._contention.granted(request, own, asked_at)
        return await self._go_on(request, own, reply, None)

    async def _go_on(
        self, request: Request, own: OwnKey, reply: TxnReply, position: int | None
    ) -> Grant | Busy:
        """Claim a free slot if we are first in the queue; else watch what is in the way."""
        keys = self._of(request)
        _, queue, taken, first = reply.found
        before = [pair for pair in queue.pairs if pair.key != own.key]
        if before:
            return self._contention.wait(
                own, Awaited(before[0].key, reply.revision), position, first
            )
        slot = await self._lowest_free(keys, taken)
        if slot >= keys.limit:
            awaited = Awaited(keys.slots[0], reply.revision, end=keys.slots[1])
            return self._contention.wait(own, awaited, 0, first)
        share = _share_of(request)._replace(slot=slot)
        return await self._claim(request, self._own_keys.claim(own, keys.slot(slot)[0], share))

    async def _claim(self, request: Request, own: OwnKey) -> Grant | Busy:
        """Move our key from the queue to a slot."""
        asked_at, keys, former = self._contention.now(), self._of(request), own.former
        assert former is not None
        reply = await self._contention.put(own, keys.claim(own, former, _slot_of(own)))
        mine = reply.found[0].pairs if reply.found else []
        if reply.succeeded or any(pair.value == own.value for pair in mine):
            own.created = reply.revision if reply.succeeded else mine[0].created
            self._own_keys.claimed(own)
            return await self._granted(request, own, asked_at)
        return await self._look(request, self._own_keys.unclaimed(own))

    async def _granted(self, request: Request, own: OwnKey, asked_at: float) -> Grant:
        self._remember(request, _slot_of(own) + 1)
        return await self._contention.granted(request, own, asked_at)

    async def release(self, grant: Grant) -> bool:
        """Delete the key of a slot; the next guess is that slot if it is the lower one."""
        freed = await self._contention.release(grant)
        if grant.share is not None and grant.share.slot is not None:
            guess = (grant.name, grant.share.limit)
            if self._guesses.get(guess, 0) > grant.share.slot:
                self._guesses[guess] = grant.share.slot
        return freed

    async def _check_limit(self, request: Request, own: OwnKey) -> None:
        """Forget the key and raise if the semaphore is in use with another limit."""
        found = await self._contention.read(range_of(*self._of(request).all, limit=1))
        theirs, ours = self._keys.limit_of(found, request.name), _share_of(request).limit
        if theirs is not None and theirs != ours:
            self._own_keys.forget(own)
            raise limits_differ(request.name, theirs, ours)

    async def _lowest_free(self, keys: SemaphoreKeys, taken: RangeReply) -> int:
        """Return the lowest free slot; the slots of a large semaphore are read page by page."""
        slot = lowest_free(taken.pairs)
        while taken.more and slot > slot_of(taken.pairs[-1].key):
            taken = await self._contention.read(keys.page(taken.pairs[-1].key))
            slot = lowest_free(taken.pairs, slot)
        return slot

    def _of(self, request: Request) -> SemaphoreKeys:
        return self._keys.semaphore(request.name, _share_of(request).limit)

    def _guess(self, request: Request) -> int:
        """Guess the lowest free slot; 0 if a transaction cannot compare so many lower ones."""
        slot = self._guesses.get((request.name, _share_of(request).limit), 0)
        return slot if slot <= self._of(request).compared_max else 0

    def _remember(self, request: Request, slot: int) -> None:
        if len(self._guesses) >= KEPT_MAX:
            self._guesses.clear()
        self._guesses[request.name, _share_of(request).limit] = slot


def _share_of(request: Request) -> Share:
    assert request.share is not None
    return request.share


def _slot_of(own: OwnKey) -> int:
    assert own.share is not None
    assert own.share.slot is not None
    return own.share.slot


_NONE = RangeReply(0, [], False)
