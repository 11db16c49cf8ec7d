"""The embedded engine: locks between all processes of one machine, in one SQLite file.

The recipe is that of ``memory.py``, one short transaction for each step (``ledger.py``). What this
file adds is how a waiter in another process learns that it should look again: whoever hands it the
lock pushes to its inbox (``inbox.py``). A listener per client hears that, and now and then looks
whether a holder or a called waiter has died without a word, so that nobody sleeps beside a free
lock.

Expiry is judged on the boot clock, which all processes of a machine share. Fences come from one
counter for all names, lifted to the wall clock: they grow although nothing is kept for a name that
is not in use, and even when the last commits before a power cut were lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import FencelockError, Misconfigured
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    Waiting,
    granted,
    renewed,
)
from ...world import Signal, World
from ..options import REQUEST_TIMEOUT_S, common, switch
from .listener import Listener
from .transactions import Ledger
from .wire.database import Handle
from .wire.file import absolute

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it


class SqliteEngine(Engine):
    """``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""

    schemes = ("sqlite",)
    plain = True
    options: ClassVar = {**common("request_timeout"), "push": switch("push")}
    traits = Traits(
        safety="correctness",
        scope="machine",
        fence=True,
        fifo=True,
        push=True,
        durable=True,
        portable=True,
    )

    @classmethod
    def settled(cls, address: Address) -> Address:
        """The file by its absolute path: a forked child may have another working folder."""
        if address.hosts or address.path in ("", "/") or ":memory:" in address.path:
            raise Misconfigured(
                f"{address.public} names no file: write sqlite:///relative.db or "
                "sqlite:////absolute.db, and memory:// for locks within one process"
            )
        return address._replace(path="/" + absolute(address.path))

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._path = address.path[1:]
        request_timeout = float(str(address.options.get("request_timeout", REQUEST_TIMEOUT_S)))
        self._handle = Handle(self._path, request_timeout, world.now, world.limit)
        self._ledger = Ledger(self._handle, world.wall_us)
        self._hands = world.adopt("fencelock-sqlite")
        self._listener = Listener(world, self._hands, self._handle, self._ledger)

    async def open(self) -> None:
        await self._hands(self._handle.open)
        try:
            await self._hands(self._ledger.tidy, self.world.now())
        except FencelockError:
            await self._hands(self._handle.close)  # whoever comes next has another engine
            raise

    async def close(self) -> None:
        await self._listener.close()
        await self._hands(self._handle.close)
        await self._hands.close()

    def close_nowait(self) -> None:
        self._listener.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        now = self.world.now()
        if request.queue:
            self._listener.expect(request.owner, request.name)
        answer = await self._hands(self._ledger.acquire, request, now, self._listener.inbox)
        if answer.call is not None:
            await self._listener.push(answer.call)
        if answer.fence:
            if request.queue:
                self._listener.forget(request.owner)
            return granted(request.name, request.owner, answer.fence, request.ttl, now)
        if request.queue:
            self._listener.look_through()
        position = answer.position if request.queue else None
        return Busy(LOOK_S, position, request.queue, answer.holder)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        gone = await self._hands(self._ledger.renew, grants, now)
        if not gone:
            return [*renewed(grants, now)]
        return [
            _gone(gone[new.owner]) if new.owner in gone else new for new in renewed(grants, now)
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner)

    async def withdraw(self, request: Request) -> None:
        await self._leave(request.name, request.owner)

    async def _leave(self, name: str, owner: str) -> bool:
        freed, call = await self._hands(self._ledger.leave, name, owner, self.world.now())
        self._listener.forget(owner)
        if call is not None:
            await self._listener.push(call)
        return freed

    async def revoke(self, name: str, reason: str) -> bool:
        revoked, call = await self._hands(self._ledger.revoke, name, reason, self.world.now())
        if call is not None:
            await self._listener.push(call)
        return revoked

    async def watch(self, request: Request, signal: Signal) -> None:
        push = bool(self.address.options.get("push", True))
        self._listener.watch(request.owner, signal, push)

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(request.owner)

    async def inspect(self, name: str) -> State:
        now = self.world.now()
        await self._listener.push(await self._hands(self._ledger.settle, name, now))
        waiting = "SELECT since, meta FROM waiters WHERE name=? ORDER BY place"
        rows = await self._hands(self._handle.look, now, waiting, (name,))
        waiters = tuple(Waiting(now - since, json.loads(meta)) for since, meta in rows)
        return State(name, tuple(await self._holdings("name = ?", name)), waiters)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._holdings("substr(name, 1, length(?)) = ?", prefix, prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        pragmas = "SELECT j.journal_mode, (SELECT fence FROM locks WHERE name='')"
        pragmas += " FROM pragma_journal_mode j"
        rows = await self._hands(self._handle.look, self.world.now(), pragmas, ())
        return diagnose(self._path, rows[0][0], rows[0][1] - self.world.wall_us())

    async def _holdings(self, where: str, *values: str) -> list[Holding]:
        now = self.world.now()
        held = (
            "SELECT name, fence, ttl, since, expires_at, meta FROM locks"
            f" WHERE {where} AND expires_at > ? AND claimed ORDER BY name"
        )
        return [
            Holding(name, fence, ttl, now - since, expires_at - now, json.loads(meta))
            for name, fence, ttl, since, expires_at, meta in await self._hands(
                self._handle.look, now, held, (*values, now)
            )
        ]


def _gone(reason: str | None) -> Gone:
    if reason is not None:
        return Gone("revoked", reason)
    return Gone("expired", "its record is gone from the file")
