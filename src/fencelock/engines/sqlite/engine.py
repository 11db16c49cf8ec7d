"""The embedded engine: locks between all processes of one machine, in one SQLite file.

The recipe is that of ``memory.py``, one short transaction for each step (``transactions.py``, and
``shares.py`` for semaphores and read/write locks). What this file adds is how a waiter in another
process learns that it should try again: the client that hands it the lock pushes to its inbox. One
listener per client receives the pushes, and finds out when a holder, or a waiter that was handed
the lock, has died without releasing it, so that no waiter sleeps beside a free lock.

Expiry is judged on the boot clock, which all processes of a machine share. Fences come from one
counter for all names, lifted to the wall clock: they grow although nothing is kept for a name that
is not in use, and even when the last commits before a power cut were lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...engine import EVERY_PROMISE, Address, Engine
from ...errors import FencelockError, Misconfigured
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    granted,
    limits_differ,
    renewed,
)
from ...world import Signal, World
from ..options import REQUEST_TIMEOUT_S, common, switch
from .handover import key_of
from .inspect import holdings, journal_and_fence
from .listener import Listener
from .memos import Memos
from .transactions import Transactions
from .wire.database import Database
from .wire.file import absolute

RETRY_S = 60.0  # the listener wakes all waiters; this is the net under it


class SqliteEngine(Engine):
    """``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""

    schemes = ("sqlite",)
    plain = True
    options: ClassVar = {**common("request_timeout"), "push": switch("push")}
    traits = EVERY_PROMISE._replace(scope="machine")

    @classmethod
    def settled(cls, address: Address) -> Address:
        """Name the file by its absolute path: a forked child may have another working folder."""
        if address.hosts or address.path in ("", "/") or ":memory:" in address.path:
            raise Misconfigured(
                f"{address.public} names no file: write sqlite:///relative.db or "
                "sqlite:////absolute.db, and memory:// for locks within one process"
            )
        return address._replace(path="/" + absolute(address.path))

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        path = address.path[1:]
        request_timeout = float(str(address.options.get("request_timeout", REQUEST_TIMEOUT_S)))
        self._database = Database(path, request_timeout, world.now, world.limit)
        self._transactions = Transactions(self._database, world.wall_us)
        self._memos = Memos(self._database)
        self._blocking = world.adopt("fencelock-sqlite")
        push = bool(address.options.get("push", True))
        self._listener = Listener(world, self._blocking, path, self._transactions, push)

    async def open(self) -> None:
        await self._blocking(self._database.open)
        try:
            await self._blocking(self._transactions.purge, self.world.now())
        except FencelockError:
            await self._blocking(self._database.close)  # the next caller gets another engine
            raise

    async def close(self) -> None:
        await self._listener.close()
        await self._blocking(self._database.close)
        await self._blocking.close()

    def close_nowait(self) -> None:
        self._listener.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        now = self.world.now()
        if request.queue:
            self._listener.joining(request.owner, key_of(request.name, request.share))
        answer = await self._blocking(
            self._transactions.acquire, now, request, self._listener.inbox
        )
        if answer.handovers:
            await self._listener.push(answer.handovers)
        if answer.fence:
            if request.queue:
                self._listener.left(request.owner)
            return granted(
                request.name, request.owner, answer.fence, request.ttl, now, answer.share
            )
        if request.share is not None and answer.limit:
            self._listener.left(request.owner)
            raise limits_differ(request.name, answer.limit, request.share.limit)
        if request.queue:
            self._listener.rescan()
        position = answer.position if request.queue else None
        return Busy(RETRY_S, position, request.queue, answer.holder)

    async def acquire_all(self, requests: Sequence[Request]) -> list[Grant] | tuple[str, Busy]:
        now = self.world.now()
        fences, held = await self._blocking(self._transactions.acquire_all, now, requests)
        if not fences:
            await self._listener.push(held.handovers)
            return requests[held.position].name, Busy(RETRY_S, None, False, held.holder)
        return [
            granted(request.name, request.owner, fence, request.ttl, now)
            for request, fence in zip(requests, fences, strict=True)
        ]

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        gone = await self._blocking(self._transactions.renew, now, grants)
        if not gone:
            return [*renewed(grants, now)]
        return [
            _gone(gone[new.owner]) if new.owner in gone else new for new in renewed(grants, now)
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._leave(key_of(grant.name, grant.share), grant.owner)

    async def release_all(self, grants: Sequence[Grant]) -> list[bool]:
        now, holders = self.world.now(), [(grant.name, grant.owner) for grant in grants]
        answers = await self._blocking(self._transactions.leave_all, now, holders)
        for _, handovers in answers:
            await self._listener.push(handovers)
        return [freed for freed, _ in answers]

    async def withdraw(self, request: Request) -> None:
        await self._leave(key_of(request.name, request.share), request.owner)

    async def _leave(self, key: str, owner: str) -> bool:
        now = self.world.now()
        freed, handovers = await self._blocking(self._transactions.leave, now, key, owner)
        self._listener.left(owner)
        if handovers:
            await self._listener.push(handovers)
        return freed

    async def revoke(self, name: str, reason: str) -> bool:
        now = self.world.now()
        revoked, handovers = await self._blocking(self._transactions.revoke, now, name, reason)
        await self._listener.push(handovers)
        return revoked

    async def watch(self, request: Request, signal: Signal) -> None:
        self._listener.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(request.owner)

    async def announce(self, name: str) -> None:
        await self._listener.announce(name)

    async def observe(self, name: str, signal: Signal) -> None:
        self._listener.observe(name, signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._listener.unobserve(name, signal)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        now = self.world.now()
        await self._blocking(self._transactions.count_change, now)
        await self._blocking(self._memos.remember, now, name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._blocking(self._memos.recall, self.world.now(), name)

    async def forget(self, name: str) -> None:
        await self._blocking(self._memos.forget, self.world.now(), name)

    async def inspect(self, name: str) -> State:
        now = self.world.now()
        state, handovers = await self._blocking(self._transactions.inspect, now, name)
        await self._listener.push(handovers)
        return state

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._blocking(holdings, self._database, self.world.now(), prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        now = self.world.now()
        journal_mode, fence = await self._blocking(journal_and_fence, self._database, now)
        return diagnose(self._database.path, journal_mode, fence - self.world.wall_us())


def _gone(reason: str | None) -> Gone:
    if reason is not None:
        return Gone("revoked", reason)
    return Gone("expired", "its record is gone from the file")
