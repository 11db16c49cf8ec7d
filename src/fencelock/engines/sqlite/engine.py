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
from ...world import Job, Signal, World
from .file import absolute, read_patience, read_switch
from .handle import Handle
from .inbox import Delivery, Inbox, Post
from .ledger import Call, Ledger

LOOK_S = 10.0  # a waiter says that it is alive this often
SWEEP_S = 0.25  # the listener looks for the dead this often
POLL_MIN_S, POLL_MAX_S = 0.001, 0.05  # where there is no push
CLOSE_S = 2.0

_STIRRED = """
SELECT w.name, w.owner, w.lapsed, l.owner, l.expires_at, l.claimed
FROM waiters w LEFT JOIN locks l ON l.name = w.name WHERE w.inbox = ?
"""


class SqliteEngine(Engine):
    """``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""

    schemes = ("sqlite",)
    options: ClassVar = {"patience": read_patience, "push": read_switch}
    traits = Traits(
        safety="correctness", scope="machine", fence=True, fifo=True, push=True, durable=True
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        if address.hosts or address.path in ("", "/") or ":memory:" in address.path:
            raise Misconfigured(
                f"{address.public} names no file: write sqlite:///relative.db or "
                "sqlite:////absolute.db, and memory:// for locks within one process"
            )
        self._path = absolute(address.path)
        patience = float(str(address.options.get("patience", 5.0)))
        self._handle = Handle(self._path, patience)
        self._ledger = Ledger(self._handle, world.wall_us)
        self._post = Post(self._path)
        self._inbox: Inbox | None = None
        self._signals: dict[str, Signal] = {}
        self._hands = world.adopt("fencelock-sqlite")
        self._ears = world.adopt("fencelock-inbox")
        self._waited_for = world.signal()
        self._listener: Job | None = None
        self._closing = False

    async def open(self) -> None:
        await self._hands(self._handle.open, self.world.now())
        await self._hands(self._ledger.tidy, self.world.now())

    async def close(self) -> None:
        self._closing = True
        self._waited_for.set()
        if self._inbox is not None:
            self._inbox.wake()
            if self._listener is not None:
                await self._listener.join(self.world.now() + CLOSE_S)
            self._inbox.close()
        self._post.close()
        await self._hands(self._handle.close)
        await self._hands.close()
        await self._ears.close()

    async def acquire(self, request: Request) -> Grant | Busy:
        now = self.world.now()
        inbox = self._inbox.id if self._inbox is not None else ""
        answer = await self._hands(self._ledger.acquire, request, now, inbox)
        if answer.call is not None:
            await self._push(answer.call)
        if answer.fence:
            return granted(request.name, request.owner, answer.fence, request.ttl, now)
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
        if call is not None:
            await self._push(call)
        return freed

    async def revoke(self, name: str, reason: str) -> bool:
        revoked, call = await self._hands(self._ledger.revoke, name, reason, self.world.now())
        if call is not None:
            await self._push(call)
        return revoked

    async def _push(self, call: Call | None) -> None:
        """Tell a waiter that the lock is handed to it; a dead one is passed over at once."""
        while call is not None:
            signal = self._signals.get(call.owner)
            if signal is not None:
                signal.set()
                return
            if self._post.send(call.inbox, call.owner.encode()) is not Delivery.DEAD:
                return
            call = await self._hands(self._ledger.bury, call, self.world.now())

    async def watch(self, request: Request, signal: Signal) -> None:
        if self._inbox is None:
            push = bool(self.address.options.get("push", True))
            self._inbox = Inbox(self._post, self.world.owner()[:16], push)
        self._signals[request.owner] = signal
        self._waited_for.set()
        if self._listener is None:
            self._listener = self.world.spawn(self._listen(), "fencelock-listener")

    async def unwatch(self, request: Request) -> None:
        self._signals.pop(request.owner, None)

    def abandon(self) -> None:
        self._closing = True
        self._waited_for.set()

    async def _listen(self) -> None:
        """Hear pushes, and look now and then for those who died without one."""
        assert self._inbox is not None
        silent = self._inbox.silent
        nap = POLL_MIN_S if silent else SWEEP_S
        sweep_at = 0.0
        while not self._closing:
            if not self._signals:
                self._waited_for.clear()
                if not self._signals:
                    await self.world.wait(self._waited_for, None)
                continue
            for owner in await self._ears(self._inbox.receive, nap):
                self._wake(owner)
            now = self.world.now()
            if now < sweep_at:
                continue
            stirred, soonest = await self._sweep(now)
            if silent:
                nap = POLL_MIN_S if stirred else min(nap * 1.5, POLL_MAX_S)
            else:
                nap = min(max(soonest - self.world.now(), POLL_MIN_S), SWEEP_S)
            sweep_at = now + nap * 0.9

    async def _sweep(self, now: float) -> tuple[bool, float]:
        """Wake our waiters that were handed a lock or passed over; hand on what was left."""
        assert self._inbox is not None
        soonest, stirred = now + SWEEP_S, False
        try:
            rows = await self._hands(self._handle.look, now, _STIRRED, (self._inbox.id,))
            for name, owner, lapsed, holder, expires_at, claimed in rows:
                if holder is not None and expires_at > now:
                    soonest = min(soonest, expires_at)
                    if holder == owner and not claimed:
                        stirred = self._wake(owner)
                elif lapsed:
                    stirred = self._wake(owner)
                else:
                    stirred = True
                    await self._push(await self._hands(self._ledger.settle, name, now))
        except FencelockError:
            pass  # the waiters meet the same trouble in their own calls, and say it
        return stirred, soonest

    def _wake(self, owner: str) -> bool:
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()
        return signal is not None

    async def inspect(self, name: str) -> State:
        now = self.world.now()
        await self._push(await self._hands(self._ledger.settle, name, now))
        waiting = "SELECT since, meta FROM waiters WHERE name=? ORDER BY place"
        rows = await self._hands(self._handle.look, now, waiting, (name,))
        waiters = tuple(Waiting(now - since, json.loads(meta)) for since, meta in rows)
        return State(name, tuple(await self._holdings("name = ?1", name)), waiters)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._holdings("substr(name, 1, length(?1)) = ?1", prefix)

    async def examine(self) -> list[Finding]:
        from .examine import examine

        pragmas = "SELECT j.journal_mode, (SELECT value FROM marks WHERE key='fence')"
        pragmas += " FROM pragma_journal_mode j"
        rows = await self._hands(self._handle.look, self.world.now(), pragmas, ())
        return examine(self._path, rows[0][0], rows[0][1] - self.world.wall_us())

    async def _holdings(self, where: str, value: str) -> list[Holding]:
        now = self.world.now()
        held = (
            "SELECT name, fence, ttl, since, expires_at, meta FROM locks"
            f" WHERE {where} AND expires_at > ?2 AND claimed ORDER BY name"
        )
        return [
            Holding(name, fence, ttl, now - since, expires_at - now, json.loads(meta))
            for name, fence, ttl, since, expires_at, meta in await self._hands(
                self._handle.look, now, held, (value, now)
            )
        ]


def _gone(reason: str | None) -> Gone:
    if reason is not None:
        return Gone("revoked", reason)
    return Gone("expired", "its record is gone from the file")
