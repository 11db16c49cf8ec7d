"""The recipes of names that several hold. The nodes are Curator's, so that Java programs take part.

**A read/write lock** (InterProcessReadWriteLock) is one queue of nodes for readers and writers. A
reader waits for the last writer before it, a writer for whoever is before it: a writer that leaves
wakes the readers behind it, or one writer.

* A writer that becomes a reader has its node renamed, in one transaction, and keeps the number:
  nobody can come between, it stands before all who wait, and readers that waited for it look again.

**A semaphore** (InterProcessSemaphoreV2) is a queue in ``locks``, and a node in ``leases`` for each
that holds. Only the first in the queue may take a slot, so whoever waits is overtaken by nobody,
and while it waits nobody makes a lease. It alone watches the leases.

* Taking a slot is one transaction: the node leaves the queue and is a lease. The slot is in its
  name. A lease of Curator has none, and counts all the same.
* The fence is the czxid of the node in the queue. Slots are given in the order of the queue, so it
  grows with every grant. It is written into the lease, as into a reader that was a writer.
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
        """Grant what the node stands for, and no more than is wanted; None when it has gone."""
        node = turn.node
        child = node.child or ""
        downgrades = share.units < share.limit and not paths.is_reader(child)
        if downgrades and not await self._queue.move(node, node.folder, paths.downgraded(child)):
            return None
        return self._queue.grant(turn, request)

    async def _take_slot(self, turn: Turn, request: Request, share: Share) -> Grant | Busy | None:
        """Take the lowest free slot; None when the node has gone, or a slot has just come back."""
        node, queue = turn.node, self._queue
        if node.is_lease:  # it has one
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
