"""``mode=row``: a row locked by a transaction, which the caller may join.

The protocol is that of ``_sql/row_engine.py``; here is how PostgreSQL locks, renews, commits and
looks up. ``mode=advisory`` with ``bound=transaction`` is the same with an advisory lock of the
transaction instead of a row.

* **The end of a lease.** A transaction that is idle for its ttl and a second is ended by the server
  (``idle_in_transaction_session_timeout``).
* **A commit with an unknown outcome is looked up**: the server keeps the transaction's status
  (``pg_xact_status``).
* **Fence**: a sequence, drawn after the lock; a rolled-back transaction does not take it back.
* A row may be locked only by ``tidy``, which removes it: a request that finds the row locked but no
  holder waits for ``tidy`` to end, and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, cast

from ...engine import Address
from ...errors import FencelockError
from ...model import Busy, Grant, Holding, Request, State, Traits
from ...world import World
from .._sql import row_engine
from .._sql.hold import TransactionHold, renewal_timeout
from .._sql.row_engine import Locked
from .engine import PostgresqlEngine
from .keys import key_of
from .rows import Rows, flag, holding, integer, number, string
from .statements import ADVISORY, Statements, qualified
from .wire import Transaction

GRACE_S = 1.0
TRIES_MAX = 2
TIDY_EVERY = 1000  # grants between two removals of unused rows
IN_FAILED = "25P02"  # in_failed_sql_transaction: a statement in a transaction that has failed

Fate = Literal["committed", "aborted", "in progress", "unknown"]


class RowEngine(row_engine.RowEngine[Transaction], PostgresqlEngine):
    """Locks that live in a transaction of PostgreSQL."""

    traits = Traits(
        "correctness", "network", fence=True, push=True, revoke=False, advice="use mode=lease"
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        settings = self._settings
        self._settle_s = settings.request_timeout
        self._locks_rows = settings.mode == "row"
        self.takes_keys = not self._locks_rows
        counter = qualified(settings.table, settings.schema) if self._locks_rows else ADVISORY
        self._sql = sql = Statements("row", settings.table, settings.schema, counter)
        self._try_one, self._lock_one = (
            (sql.try_row, sql.lock_row) if self._locks_rows else (sql.try_key, sql.lock_key)
        )
        self._grants = 0

    async def _open(self) -> None:
        await super()._open()
        await self._tidy()

    async def close(self) -> None:
        await super().close()
        await self._wire.close()

    def close_nowait(self) -> None:
        super().close_nowait()
        self._wire.close_nowait()

    # Transactions

    async def _connect(self) -> Transaction:
        transaction = await self._wire.transaction()
        transaction.on_end(lambda: self._ended(transaction))
        try:
            await transaction.execute(self._sql.lift)
        except BaseException:
            transaction.drop()
            raise
        return transaction

    async def _begin(self, transaction: Transaction) -> object:
        ((pid, began),) = await transaction.execute(self._sql.begin)
        transaction.pid, transaction.began = integer(pid), integer(began)
        return None

    async def _roll_back(self, transaction: Transaction) -> object:
        return await transaction.execute(self._sql.roll_back)

    # Acquire and wait

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        for _ in range(TRIES_MAX):
            if self._is_held(request, answer):
                break
            await self._wire.execute(self._sql.tidied)
            answer = await super().acquire(request)
        return answer

    def _is_held(self, request: Request, answer: Grant | Busy) -> bool:
        """Return whether a reply is final: a row without a holder may be locked by ``tidy``."""
        if not self._locks_rows or request.waits or request.queue or isinstance(answer, Grant):
            return True  # a waiter waits in the server's queue, whichever transaction has the row
        return bool(answer.holder)

    async def _try_lock(self, request: Request, transaction: Transaction) -> Locked | None:
        rows = await transaction.execute(self._try_one, *self._what(request))
        if not flag(rows[0][1]):  # no such row yet; it is inserted apart, so that others see it
            await self._wire.execute(self._sql.make_row, request.name)
            rows = await transaction.execute(self._try_one, *self._what(request))
        locked = _locked(rows)
        return None if locked.fence is None else locked

    async def _before_waiting(self, request: Request) -> None:
        if self._locks_rows:
            await self._wire.execute(self._sql.make_row, request.name, owner=request.owner)

    def _send_lock(
        self,
        request: Request,
        transaction: Transaction,
        done: Callable[[Locked | Exception], None],
    ) -> None:
        def answered(answer: Rows | Exception) -> None:
            done(answer if isinstance(answer, Exception) else _locked(answer))

        transaction.send_async(self._lock_one, self._what(request), answered)

    async def _cancel(self, transaction: Transaction, within: float) -> object:
        which = transaction.pid, transaction.began
        return await self._wire.execute_soon(self._sql.cancel, *which, within=within)

    def _what(self, request: Request) -> tuple[object, ...]:
        key = key_of(request.name) if request.key is None else request.key
        return request.name, key, f"{(request.ttl + GRACE_S) * 1000:.0f}"

    async def _granted(self, request: Request, hold: TransactionHold[Transaction]) -> None:
        self._grants += 1
        if self._grants % TIDY_EVERY == 0:
            self.world.spawn(self._tidy_again(), "fencelock-tidy")
        name, owner, ttl, meta, *_ = request
        shown = (name, owner, hold.fence, ttl, hold.session.pid, hold.xid, meta)
        await self._wire.execute(self._sql.show, *shown, owner=owner)

    # Renew

    async def _heartbeat(self, hold: TransactionHold[Transaction], grant: Grant) -> object:
        return await hold.session.execute_if_idle(self._sql.heartbeat)

    async def _confirm(self, holds: Mapping[Grant, TransactionHold[Transaction]]) -> set[str]:
        names, owners, _, ttls, *_ = map(list, zip(*holds, strict=True))
        xids = [hold.xid for hold in holds.values()]
        within = renewal_timeout(list(holds))
        rows = await self._wire.execute_soon(
            self._sql.renew, names, owners, ttls, xids, within=within
        )
        return {string(row[0]) for row in rows}

    # Commit or roll back

    async def _finish(self, hold: TransactionHold[Transaction], commits: bool) -> object:
        last = self._sql.commit if commits else self._sql.roll_back
        if commits and hold.used:
            certain = self._sql.commit_certain
            last = certain._replace(sql=certain.sql.replace("{xid}", str(int(hold.xid))))
        return await hold.session.execute_last(last)

    def _was_failed(self, error: FencelockError) -> bool:
        return IN_FAILED in str(error)

    async def _look_up(self, hold: TransactionHold[Transaction]) -> Fate:
        status = (await self._wire.execute(self._sql.status, hold.xid))[0][0]
        return cast("Fate", string(status) or "unknown")

    async def _terminate(self, transaction: Transaction) -> None:
        try:
            if await transaction.execute_if_idle(self._sql.roll_back) is None:
                which = transaction.pid, transaction.began
                await self._wire.execute(self._sql.terminate, *which)
        except FencelockError:
            pass  # the server rolls back, once the connection is closed
        self._pool.put_back(transaction, used=True)

    # Inspect and tidy up

    async def _holder(self, name: str) -> tuple[str, int, str] | None:
        for owner, fence, meta in await self._wire.execute(self._sql.whose, name):
            return string(owner), integer(fence), string(meta)
        return None

    async def inspect(self, name: str) -> State:
        return State(name, tuple(map(holding, await self._wire.execute(self._sql.holder, name))))

    async def scan(self, prefix: str) -> list[Holding]:
        return [holding(row) for row in await self._wire.execute(self._sql.scan, prefix)]

    async def _tidy(self) -> None:
        """Remove the rows of names that were not used for a while."""
        await self._wire.execute_soon(self._sql.sweep)
        if self._locks_rows:
            await self._wire.execute_soon(self._sql.tidy)

    async def _tidy_again(self) -> None:
        try:
            await self._tidy()
        except FencelockError:
            pass  # rows stay a little longer; the next request meets the same error


def _locked(rows: Rows) -> Locked:
    fence, _, xid, waited, _ = rows[0]
    return Locked(None if fence is None else int(fence), string(xid), number(waited))
