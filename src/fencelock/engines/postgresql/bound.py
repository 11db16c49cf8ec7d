"""Locks that live in a transaction: ``mode=row``, and ``mode=advisory`` with ``bound=transaction``.

The holder's transaction has locked a row, or taken a transaction's advisory lock.
``lease.connection`` is the connection of that transaction, so what is done over it commits together
with the lock's end: there is no moment in which the data is written and the lock is not held.
Release commits.

* **The end of a lease.** A transaction that is idle for its ttl and a second is ended by the server
  (``idle_in_transaction_session_timeout``). Renewal is a word on that very connection, unless its
  holder is using it, and a look from outside that the transaction still goes on. A lease that
  nobody renews is rolled back by the warden.
* **Only a body that ended well commits.** Whatever else ends the hold rolls back: an error, a
  client that is closed, a program that ends, a dropped lease, a loss that its holder was told of.
* **Loss**: the session or the transaction has ended, by whomever. Nobody can have committed
  anything after it. The holder is told at the moment when the kernel knows that the connection was
  closed; else at the next renewal.
* **An unknown commit is looked up**: the server remembers what became of a transaction.
* **Fence**: a sequence, drawn after the lock; a rolled-back transaction does not take it back.
"""

from __future__ import annotations

from typing import cast

from ...errors import FencelockError, Unavailable
from ...model import Busy, Grant, Holding, Request, State, granted
from ...world import World
from .bonded import LOOK_S
from .bound_keeping import BoundKeeping
from .keys import key_of
from .modes import Transaction, Wire
from .rows import holding
from .server_queue import Waiter
from .settings import Settings
from .warden import BoundHold
from .wire.connection import Rows

GRACE_S = 1.0
TRIES_MAX = 2
TIDY_EVERY = 1000  # grants between two looks for rows that nobody uses


class BoundMode(BoundKeeping):
    """The protocol of transactions that hold a lock."""

    commits = True

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        super().__init__(world, wire, settings)
        self.takes_keys = settings.mode == "advisory"
        self._grants = 0

    async def open(self) -> None:
        await super().open()
        await self._tidy()

    async def close(self) -> None:
        self._closing = True
        await self._warden.close()
        holds = [hold.session for hold in self._holds.values()]
        waiting = [waiter.session for waiter in self._queue.waiters.values()]
        self._stock.close()
        doubtful = [doubt.transaction for doubt in self._doubtful.values()]
        for transaction in [*holds, *waiting, *doubtful]:
            transaction.drop()

    async def _tidy(self) -> None:
        """Remove the rows of names that nobody has used for a while."""
        await self.wire.keep(self._say.sweep)
        if self.settings.mode == "row":
            await self.wire.keep(self._say.tidy)

    async def _tidy_again(self) -> None:
        try:
            await self._tidy()
        except FencelockError:
            pass  # rows stay a little longer; whoever asks next meets the same trouble

    def close_nowait(self) -> None:
        self._warden.close_nowait()

    # Taking

    async def acquire(self, request: Request) -> Grant | Busy:
        hold = self._holds.get(request.owner)
        if hold is not None:
            return await self._again(request, hold)
        if (waiter := self._queue.waiters.get(request.owner)) is not None:
            return await self._claim(waiter)
        if request.queue:
            return await self._stand(request)
        answer = await self._try(request)
        for _ in range(TRIES_MAX):
            if self._is_held(request, answer):
                break
            await self.wire.ask(self._say.tidied)
            answer = await self._try(request)
        return answer

    def _is_held(self, request: Request, answer: Grant | Busy) -> bool:
        """Whether to believe a refusal: a row may be locked only to be tidied away."""
        if self.settings.mode != "row" or request.waits or isinstance(answer, Grant):
            return True  # who waits does so in the server's queue, and for whomever
        return bool(answer.holder)

    async def _try(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()
        transaction = await self._stock.begin(request.owner)
        rows = await self._ask_for(request, transaction)
        if rows[0][0] is not None:
            return await self._hold(request, transaction, rows, asked_at)
        self._stock.arrived(request.owner)
        await self._stock.undo(transaction)
        return await self._busy(request)

    async def _ask_for(self, request: Request, transaction: Transaction) -> Rows:
        rows = await transaction.ask(self._say.try_lock, *self._what(request))
        if rows[0][1] != b"t":  # no such row yet: others must see it, so it is made apart
            await self.wire.ask(self._say.make_row, request.name)
            rows = await transaction.ask(self._say.try_lock, *self._what(request))
        return rows

    def _what(self, request: Request) -> tuple[object, ...]:
        key = key_of(request.name) if request.key is None else request.key
        return request.name, key, f"{(request.ttl + GRACE_S) * 1000:.0f}"

    async def _hold(
        self, request: Request, transaction: Transaction, rows: Rows, asked_at: float
    ) -> Grant:
        fence, xid = int(rows[0][0] or 0), (rows[0][2] or b"").decode()
        owner = request.owner
        self._holds[owner] = BoundHold(request, transaction, fence, asked_at, xid)
        self._stock.arrived(owner)
        self._warden.expect(asked_at + request.ttl)
        self._grants += 1
        if self._grants % TIDY_EVERY == 0:
            self.world.spawn(self._tidy_again(), "fencelock-tidy")
        note = (request.name, owner, fence, request.ttl, transaction.pid, xid, request.meta)
        await self.wire.ask(self._say.note, *note, owner=owner)
        return granted(request.name, owner, fence, request.ttl, asked_at)

    # Waiting

    async def _stand(self, request: Request) -> Grant | Busy:
        if self.settings.mode == "row":
            await self.wire.ask(self._say.make_row, request.name, owner=request.owner)
        transaction = await self._stock.begin(request.owner)
        waiter = Waiter(request, 0, transaction, self.world.now())
        await self._queue.stand(waiter, self._say.lock, self._what(request))
        self._stock.arrived(request.owner)
        return await self._claim(waiter)

    async def _claim(self, waiter: Waiter) -> Grant | Busy:
        answer, request = waiter.answer, waiter.request
        if answer is None:
            return Busy(LOOK_S, None, True)
        transaction = _transaction(waiter)
        self._queue.waiters.pop(request.owner, None)
        if isinstance(answer, Exception):
            transaction.drop()
            raise Unavailable(f"the session of a waiter has ended ({answer}): try again")
        if answer[0][0] is None:  # the row was tidied away while we waited for it
            await self._stock.undo(transaction)
            return await self._stand(request)
        since = waiter.let_in_at(answer[0][3], self.world.now())
        return await self._hold(request, transaction, answer, since)

    # Leaving

    def mark_failed(self, grant: Grant) -> None:
        hold = self._holds.get(grant.owner)
        if isinstance(hold, BoundHold):
            hold.failed = True

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.get(request.owner)
        if waiter is not None:
            useful = await self._queue.call_off(waiter)  # broken off, it is to be done again
            if self._queue.waiters.pop(request.owner, None) is not None and useful:
                await self._stock.undo(_transaction(waiter))
        if (astray := self._stock.arrived(request.owner)) is not None:
            astray.drop()  # cancelled in the midst of a statement: the server rolls back
        hold = self._holds.get(request.owner)
        if isinstance(hold, BoundHold):
            hold.failed = True
            await self.release(granted(request.name, request.owner, hold.fence, hold.ttl, 0.0))
        await self._endings.settled([request.owner], self.settings.request_timeout)

    # Looking

    async def inspect(self, name: str) -> State:
        return State(name, tuple(map(holding, await self.wire.ask(self._say.holder, name))))

    async def scan(self, prefix: str) -> list[Holding]:
        return [holding(row) for row in await self.wire.ask(self._say.scan, prefix)]

    def connection(self, grant: Grant) -> object:
        hold = self._holds.get(grant.owner)
        if not isinstance(hold, BoundHold):
            raise Unavailable("the transaction of this lease has ended")
        hold.used = True
        return hold.transaction.connection


def _transaction(waiter: Waiter) -> Transaction:
    return cast(Transaction, waiter.session)  # waiters of this mode stand on nothing else
