"""Read/write locks in etcd: the queue of the mutex, with two kinds of contenders.

A reader puts a key below ``read/``, a writer one below ``write/``. Their order is that of their
create revisions, which are the fences.

* A writer holds when no key has a lower create revision. Else it waits for the last of those keys.
* A reader holds when no writer's key has a lower one. Else it waits for the last of those writers:
  all readers behind one writer are woken together.
* A writer that becomes a reader marks its key as downgraded, in the value. The key and its create
  revision stay, so that later writers wait for it; readers that watch the key are woken by the
  change. Only the holder can have such a key, and no writer's key is older: so when the last
  writer's key before a reader is downgraded, no writer is before that reader.

One transaction takes a free lock, or joins the queue and reads the key to wait for: the same few
keys, however many readers there are.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...model import Busy, Grant, Request, Share
from .cluster import go_on
from .contention import Contention
from .messages.replies import KeyValue, TxnReply
from .own_key import Awaited, OwnKey
from .own_keys import POLL_S
from .share_keys import is_downgraded


class RWLocks:
    """The read/write locks of one client."""

    def __init__(self, contention: Contention) -> None:
        self._contention = contention
        self._own_keys = contention.own_keys
        self._keys = contention.keys

    def acquire(self, request: Request) -> Coroutine[Any, Any, Grant | Busy]:
        own = self._own_keys.by_owner.get(request.owner)
        if own is None or own.lease.ended or not own.created:
            return self._join(request, request.queue or request.waits)
        return go_on(request, self._look(request, own))

    async def _join(self, request: Request, queues: bool) -> Grant | Busy:
        """Take the lock if there is no key to wait for; else join the queue if ``queues``.

        If our key already exists, it was put by a request that was never answered.
        """
        assert request.share is not None
        asked_at, keys = self._contention.now(), self._keys.rwlock(request.name)
        lease = await self._contention.lease(request)
        start = keys.start_of(request.share)
        own = self._own_keys.take_share(request, start, lease, request.share)
        reply = await self._contention.put(own, keys.take(own, queues))
        if reply.succeeded:
            own.created = reply.revision
            return await go_on(request, self._contention.granted(request, own, asked_at))
        mine = reply.found[0]
        if not mine.pairs:
            return await self._turned_away(request, own, reply)
        if mine.pairs[0].value != own.value:  # another client took over what was ours: leave it
            self._own_keys.forget(own, keep_key=True)
            return await self._join(request, queues)
        own.created = mine.pairs[0].created
        return await go_on(request, self._joined(request, own, reply))

    async def _joined(self, request: Request, own: OwnKey, reply: TxnReply) -> Grant | Busy:
        """Continue after a transaction joined the queue, or an earlier one had joined it."""
        last = self._last_before(own, request, reply)
        if own.created != reply.revision or last is None:
            answer = await self._look(request, own)
        else:
            answer = self._wait(own, last, reply)
        return await self._contention.leave(request, answer)

    async def _look(self, request: Request, own: OwnKey) -> Grant | Busy:
        """Read whether there is still a key to wait for: watch it, or else grant or downgrade."""
        asked_at, keys = self._contention.now(), self._keys.rwlock(request.name)
        downgrades = _gives_up_writing(own.share, request.share)
        reply = await self._contention.look(own, keys.look(own))
        if reply is None and downgrades:
            return Busy(POLL_S)  # it was lost: there is nothing to downgrade
        if reply is None:
            return await self._join(request, request.queue or request.waits)
        last = self._last_before(own, request, reply)
        if last is not None:
            return self._wait(own, last, reply)
        if downgrades:
            if not await self._contention.rewrite(own, keys.downgrade(own)):
                return Busy(POLL_S)
            own.share = request.share
        return await self._contention.granted(request, own, asked_at)

    def _last_before(self, own: OwnKey, request: Request, reply: TxnReply) -> KeyValue | None:
        """Return the last key that ours has to wait for; None if there is none."""
        last = next((pair for pair in reply.found[1].pairs if pair.key != own.key), None)
        reads = not self._keys.rwlock(request.name).is_writer(own.key)
        return None if last is None or (reads and is_downgraded(last.value)) else last

    def _wait(self, own: OwnKey, last: KeyValue, reply: TxnReply) -> Busy:
        """Watch the last key to wait for, for its deletion and for its downgrade."""
        awaited = Awaited(last.key, reply.revision, puts=True)
        return self._contention.wait(own, awaited, None, reply.found[2])

    async def _turned_away(self, request: Request, own: OwnKey, reply: TxnReply) -> Grant | Busy:
        """Return Busy to an owner that does not wait, unless the only writer is now a reader."""
        busy = self._contention.refused(own, None, reply.found[2])
        if self._last_before(own, request, reply) is not None:
            return busy
        # The only writer is downgraded by now. A reader joins the queue, and leaves it if a writer
        # came first.
        return await self._join(request, True)

    async def release(self, grant: Grant) -> bool:
        return await self._contention.release(grant)


def _gives_up_writing(held: Share | None, wished: Share | None) -> bool:
    """Return whether a writer requests a downgrade to a reader."""
    return held is not None and wished is not None and wished.units < held.units
