"""Clients that take turns on one lock, one step at a time, and the requests each of them sends."""

from __future__ import annotations

from typing import Any

from fencelock import aio
from tests.faults.flavors import SOON, Job, Lab

NAME = "seat"
LATE = 100.0  # longer than a test waits: who is not woken does not come by itself


def record_requests(client: aio.Client) -> list[str]:
    """The kinds of all requests that a client sends from now on."""
    session = client._core.engine._connection._session  # type: ignore[attr-defined]
    sent: list[str] = []
    send = session.send

    def record(requests: Any, batch: Any) -> bytes:
        sent.extend(type(request).__name__ for request in requests)
        return bytes(send(requests, batch))

    session.send = record
    return sent


class Contender:
    """One client. It holds, it waits, or it is away."""

    def __init__(self, lab: Lab, client: aio.Client) -> None:
        self._lab = lab
        self.client = client
        self.engine: Any = client._core.engine
        self._sent = record_requests(client)
        self._waiter: Job[aio.Lease] | None = None
        self.lease: aio.Lease | None = None

    @property
    def child(self) -> str:
        """The name of its node."""
        (node,) = self.engine._nodes.values()
        return str(node.child)

    @property
    def sent(self) -> list[str]:
        """What it has sent since it came; a slow test is renewed now and then."""
        return [kind for kind in self._sent if kind != "Transaction"]

    @property
    def watched(self) -> list[str]:
        """The names of the nodes that it watches."""
        watches = self.engine._connection._session._watches
        return [path.rpartition("/")[2] for path in watches]

    async def join(self) -> None:
        """Want the lock, and wait in the queue for it."""
        self._sent.clear()
        self._waiter = self._lab.start(self.client.lock(NAME, ttl=30, timeout=LATE).acquire())
        await self._lab.until(lambda: self.watched, "a waiter that watches somebody")

    def is_waiting(self) -> bool:
        assert self._waiter is not None
        return not self._waiter.done()

    async def hold(self) -> aio.Lease:
        """Have the lock, now that it should come."""
        assert self._waiter is not None
        self.lease = await self._waiter.result(within=3 * SOON)
        return self.lease

    async def take(self) -> None:
        """Acquire the lock at once."""
        self._sent.clear()
        self.lease = await self.client.lock(NAME, ttl=30, timeout=LATE).acquire()

    async def leave(self) -> None:
        assert self.lease is not None
        assert await self.lease.release() is True


async def queue_up(lab: Lab, url: str, count: int) -> list[Contender]:
    """The first holds the lock; the others wait in the queue."""
    found = [Contender(lab, await lab.connect(url)) for _ in range(count)]
    await found[0].take()
    for contender in found[1:]:
        await contender.join()
    return found
