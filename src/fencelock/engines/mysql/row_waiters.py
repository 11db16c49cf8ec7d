"""Who of one client waits for a row: each with a transaction in the server's queue."""

from __future__ import annotations

from collections.abc import Callable, Container

from ...errors import Unavailable
from ...model import Request
from ...world import Signal, World
from .errors import DEADLOCK, INTERRUPTED, LOCK_WAIT, refused
from .row_sql import BLOCK_S, RowTable
from .server_wait import ServerWait
from .settings import Settings
from .wire.codec import ServerError
from .wire.pool import Pool
from .wire.transaction import Transaction
from .wire.transaction_pool import TransactionPool


class RowWaiter(ServerWait):
    """A transaction that waits in the server's queue."""

    def __init__(self, world: World, pool: Pool, request: Request) -> None:
        super().__init__(world, pool)
        self.request = request
        self.left = False
        self.error: Exception | None = None


class RowWaiters:
    """All who wait."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        pool: Pool,
        rows: RowTable,
        transactions: TransactionPool,
        got: Callable[[Transaction, Request, int], None],
    ) -> None:
        self._world = world
        self._settings = settings
        self._pool = pool
        self._rows = rows
        self._transactions = transactions
        self._got = got
        """Called with what was got, before its waiter is."""
        self._all: dict[str, RowWaiter] = {}
        self._signals: dict[str, Signal] = {}
        self._closing = False

    def watch(self, owner: str, signal: Signal) -> None:
        self._signals[owner] = signal

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    def join(self, request: Request, holding: Container[str]) -> None:
        """Have a transaction wait for this one, unless one does or did; raise why it could not."""
        waiter = self._all.get(request.owner)
        if waiter is not None and waiter.error is not None:
            del self._all[request.owner]
            raise Unavailable(f"waiting for {request.name!r} failed: {waiter.error}. Try again")
        if waiter is None and request.owner not in holding:  # looked at in this order: it moves on
            waiter = self._all[request.owner] = RowWaiter(self._world, self._pool, request)
            waiter.job = self._world.spawn(self._wait(waiter), "fencelock-waiter")

    async def _wait(self, waiter: RowWaiter) -> None:
        request, transaction, got = waiter.request, None, False
        try:
            transaction = await self._transactions.lend()
            while not waiter.left and not got and not self._closing:
                got = await self._queue_up(transaction, waiter)
        except Exception as error:
            waiter.error = error
        finally:
            await waiter.end_kills()
            if transaction is not None and not got:
                await self._transactions.roll_back(transaction)
            if got or waiter.left:
                self._all.pop(request.owner, None)
            if (signal := self._signals.get(request.owner)) is not None:
                signal.set()

    async def _queue_up(self, transaction: Transaction, waiter: RowWaiter) -> bool:
        request, waiter.identity_lock = waiter.request, transaction.identity_lock
        try:
            timeout = self._settings.request_timeout + BLOCK_S
            replies = await transaction.query(self._rows.lock(request, "", transaction), timeout)
        except ServerError as error:
            transaction.limits = ""
            await transaction.query(["ROLLBACK"], self._settings.request_timeout)
            if error.code in (LOCK_WAIT, DEADLOCK) or error.code in INTERRUPTED:
                return False
            raise refused(error, self._settings.where) from error
        fence = replies[-1][1]
        if not fence:
            self._rows.forget(request.name)
        if waiter.left or not fence:
            return False
        self._got(transaction, request, fence)
        return True

    async def withdraw(self, owner: str) -> None:
        """Leave the server's queue, if this one is there."""
        waiter = self._all.get(owner)
        if waiter is None:
            return
        waiter.left = True
        while waiter.job is not None and self._all.get(owner) is waiter:
            if await waiter.interrupt(waiter.job):
                break
        self._all.pop(owner, None)

    def close_nowait(self) -> None:
        self._closing = True

    async def close(self) -> None:
        """Withdraw all."""
        self.close_nowait()
        for owner in list(self._all):
            await self.withdraw(owner)
