"""Read/write locks and semaphores. The nodes are Curator's, so that Java programs can take part.

**A read/write lock** (InterProcessReadWriteLock) is one queue of nodes for readers and writers. A
reader waits for the last writer before it, a writer for the contender right before it: a writer
that leaves wakes the readers behind it, or one writer.

* The node of a writer that becomes a reader is renamed, in one transaction, and keeps its sequence
  number: no contender can come between, the node is before all waiters, and the readers that waited
  for it list the queue again.

**A semaphore** (InterProcessSemaphoreV2) is a queue in ``locks``, and a node in ``leases`` for each
holder. Only the first in the queue may take a slot, so no waiter is overtaken, and while it waits
no other lease is created. It alone watches the leases.

* Taking a slot is one transaction: the node moves from the queue to ``leases``. The slot is in its
  name. A lease of Curator has no slot, and counts all the same.
* The fence is the czxid of the node in the queue. Slots are given in the order of the queue, so it
  grows with every grant. It is written into the data of the lease, as into that of a reader that
  was a writer.
"""

from __future__ import annotations

from ...errors import Unavailable
from ...model import Busy, Grant, Request, Share
from . import paths
from .queue import LOOKS_MAX, Queue, Turn


class Shares:
    """The read/write locks and semaphores of one client."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        """Try once; with ``request.queue`` join the queue if it is busy."""
        take = self._take_slot if share.kind == "semaphore" else self._read_or_write
        for _ in range(LOOKS_MAX):
            turn = await self._queue.turn(request)
            if not isinstance(turn, Turn):
                return turn
            if (answer := await take(turn, request, share)) is not None:
                return answer
        raise Unavailable(f"{request.name!r} changed hands faster than it could be read")

    async def _read_or_write(self, turn: Turn, request: Request, share: Share) -> Grant | None:
        """Grant the turn, after a downgrade if only that is requested; None if the node is gone."""
        node = turn.node
        child = node.child or ""
        downgrades = share.units < share.limit and not paths.is_reader(child)
        if downgrades and not await self._queue.move(node, node.folder, paths.downgraded(child)):
            return None
        return self._queue.grant(turn, request)

    async def _take_slot(self, turn: Turn, request: Request, share: Share) -> Grant | Busy | None:
        """Take the lowest free slot; None if the node is gone, or a slot has just become free."""
        node, queue = turn.node, self._queue
        if node.is_lease:  # it has a slot
            return queue.grant(turn, request)
        child = node.child or ""
        slot = paths.free_slot(node.leases, share.limit)
        if slot is None and not request.queue:
            return await queue.refuse(node, request, [child])
        if slot is None:
            return await queue.watch_leases(node, share.limit)
        if not await queue.move(node, node.lease_folder, paths.lease(child, slot)):
            return None
        return queue.grant(turn, request)
