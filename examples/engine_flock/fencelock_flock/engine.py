"""The recipe: leases as records in a file, one transaction for each step.

* A name is free, or a record says who holds it and until when. Time is the boot clock, which all
  processes of a machine share.
* A free lock goes to the first waiter in the queue, and a newcomer never overtakes. Nobody wakes a
  waiter: it looks by itself. One that has stopped looking is passed over until it looks again.
* One counter, lifted to the wall clock, gives the fences of all names. So they grow although
  nothing is kept for a name that is not in use, and even if the file was deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from fencelock.engine import Address, Engine
from fencelock.engines.options import REQUEST_TIMEOUT_S, common
from fencelock.errors import Misconfigured
from fencelock.model import (
    Busy,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    Waiting,
    granted,
    next_fence,
)
from fencelock.world import World

from .file import File, absolute

T = TypeVar("T")

LOOK_S = 0.05  # the first in the queue looks so often, the others less
ABSENT_S = 2.0  # who has not looked for so long is passed over
FORGET_S = 30.0  # and after this long is taken for dead
REVOKED_MAX = 100  # reasons that are kept for holders who have not asked yet


class Book:
    """What is in the file, at one moment. Its methods decide; they neither wait nor fail."""

    def __init__(self, document: dict[str, Any], now: float) -> None:
        self.now = now
        self.document = document
        self.locks: dict[str, dict[str, Any]] = document.setdefault("locks", {})
        self.queues: dict[str, dict[str, dict[str, Any]]] = document.setdefault("queues", {})
        self.revoked: dict[str, str] = document.setdefault("revoked", {})
        self._drop_what_ended()

    def _drop_what_ended(self) -> None:
        """Forget leases that ran out, waiters that are dead, and empty queues.

        The boot clock starts again with the machine. A lease that has more than its ttl left, or a
        waiter seen in the future, is from before. (One second more: sums of floats are rounded.)
        """
        for name, record in list(self.locks.items()):
            if not 0.0 < record["expires_at"] - self.now < record["ttl"] + 1.0:
                del self.locks[name]
        for name, queue in list(self.queues.items()):
            for owner, waiter in list(queue.items()):
                if not -1.0 < self.now - waiter["seen_at"] < FORGET_S:
                    del queue[owner]
            if not queue:
                del self.queues[name]

    def acquire(self, request: Request, wall_us: int) -> int | Busy:
        """The fence, if the lock is ours by now; else Busy, and a place in the queue if asked."""
        record = self.locks.get(request.name)
        queue = self.queues.get(request.name, {})
        place = list(queue).index(request.owner) if request.owner in queue else len(queue)
        if record is None and not self._anybody_in(list(queue.values())[:place]):
            fence = next_fence(self.document.get("fence", 0), wall_us)
            self.document["fence"] = fence
            record = {"owner": request.owner, "fence": fence, "since": self.now}
            self.locks[request.name] = record
            queue.pop(request.owner, None)
        if record is not None and record["owner"] == request.owner:
            # Granted now, or asked again because the first answer was lost.
            record |= {"ttl": request.ttl, "meta": request.meta}
            record["expires_at"] = self.now + request.ttl
            return int(record["fence"])
        if request.queue:
            queue = self.queues.setdefault(request.name, {})
            waiter = queue.setdefault(request.owner, {"since": self.now, "meta": request.meta})
            waiter["seen_at"] = self.now
        look_in = min(LOOK_S * (place + 1), ABSENT_S / 4)
        return Busy(look_in, place, request.queue, record["meta"] if record else "")

    def _anybody_in(self, waiters: list[dict[str, Any]]) -> bool:
        return any(self.now - waiter["seen_at"] < ABSENT_S for waiter in waiters)

    def renew(self, grant: Grant) -> Gone | None:
        """Extend a lease that is still there. One that is gone is never taken again."""
        record = self.locks.get(grant.name)
        if record is not None and record["owner"] == grant.owner:
            record["ttl"], record["expires_at"] = grant.ttl, self.now + grant.ttl
            return None
        if grant.owner in self.revoked:
            return Gone("revoked", self.revoked[grant.owner])
        return Gone("expired", "its record is gone from the file")

    def leave(self, name: str, owner: str) -> bool:
        """Take an owner out of the queue and out of the lock; True when it held the lock."""
        self.queues.get(name, {}).pop(owner, None)
        record = self.locks.get(name)
        if record is None or record["owner"] != owner:
            return False
        del self.locks[name]
        return True

    def revoke(self, name: str, reason: str) -> bool:
        """Take a lock from its holder, who finds the reason when it renews."""
        record = self.locks.pop(name, None)
        if record is None:
            return False
        self.revoked[record["owner"]] = reason
        for owner in list(self.revoked)[:-REVOKED_MAX]:
            del self.revoked[owner]
        return True

    def holdings(self, wanted: Callable[[str], bool]) -> list[Holding]:
        """Who holds the names that are wanted, by name. Owner ids are not shown."""
        return [
            Holding(
                name=name,
                fence=record["fence"],
                ttl=record["ttl"],
                age=self.now - record["since"],
                remaining=record["expires_at"] - self.now,
                meta=json.loads(record["meta"]),
            )
            for name, record in sorted(self.locks.items())
            if wanted(name)
        ]

    def state(self, name: str) -> State:
        queue = self.queues.get(name, {}).values()
        waiters = tuple(Waiting(self.now - w["since"], json.loads(w["meta"])) for w in queue)
        return State(name, tuple(self.holdings(lambda other: other == name)), waiters)


class FlockEngine(Engine):
    """``flock:///relative/folder`` or ``flock:////absolute/folder``."""

    schemes = ("flock",)
    options: ClassVar = common("request_timeout")
    traits = Traits(
        safety="efficiency",  # nothing here notices a network file system: promise no more
        scope="machine",
        fence=True,
        fifo=True,
        push=False,
        durable=True,
        portable=True,
        advice="use sqlite://, which refuses file systems that it cannot rely on",
    )

    @classmethod
    def settled(cls, address: Address) -> Address:
        if address.hosts or address.path in ("", "/"):
            raise Misconfigured(f"{address.public} names no folder: write flock:////var/lib/locks")
        return address._replace(path="/" + absolute(address.path[1:]))

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        timeout = float(str(address.options.get("request_timeout", REQUEST_TIMEOUT_S)))
        self._file = File(address.path[1:], world, timeout)
        self._adopted = world.adopt("fencelock-flock")  # in asyncio, a thread of its own

    async def _transact(self, work: Callable[[Book], T]) -> T:
        def run(document: dict[str, Any]) -> T:
            return work(Book(document, self.world.now()))  # after the flock was taken

        return await self._adopted(self._file.transact, run)

    async def open(self) -> None:
        await self._adopted(self._file.create_folder)
        await self._transact(lambda book: None)

    async def close(self) -> None:
        await self._adopted.close()

    async def acquire(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()  # before the request: a slow answer shortens the lease
        wall_us = self.world.wall_us()
        answer = await self._transact(lambda book: book.acquire(request, wall_us))
        if isinstance(answer, Busy):
            return answer
        return granted(request.name, request.owner, answer, request.ttl, asked_at)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self.world.now()
        answers = await self._transact(lambda book: [book.renew(grant) for grant in grants])
        return [
            gone or granted(grant.name, grant.owner, grant.fence, grant.ttl, asked_at)
            for grant, gone in zip(grants, answers, strict=True)
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._transact(lambda book: book.leave(grant.name, grant.owner))

    async def withdraw(self, request: Request) -> None:
        await self._transact(lambda book: book.leave(request.name, request.owner))

    async def inspect(self, name: str) -> State:
        return await self._transact(lambda book: book.state(name))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._transact(lambda book: book.revoke(name, reason))

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._transact(lambda book: book.holdings(lambda n: n.startswith(prefix)))
