"""``mode=row``: a lock is a locked row, in a transaction that its holder may join.

What the holder does over ``lease.connection`` is committed together with the end of the lock, or
not at all: there is no moment in which the data is written and the lock is not held. Release
commits; a body that raised is rolled back.

``row_sql.py`` has the statements, ``wire/transaction_pool.py`` the connections, and
``row_waiters.py`` those who wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Address
from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Flavor, Signal, World
from .._sql.release_once import ReleaseOnce
from ..timer import Timer
from .engine import MysqlEngine
from .errors import DEADLOCK, LOCK_WAIT, refused
from .row_sql import RowTable
from .row_waiters import RowWaiters
from .server import CLUSTER_ADVICE, Server
from .wire.codec import ServerError
from .wire.pool import Pool
from .wire.transaction import Connect, Transaction
from .wire.transaction_pool import TransactionPool

NOWAIT = 3572  # how MySQL says that a row is locked; MariaDB says LOCK_WAIT
LOOK_S = 5.0
CLAIM_S = 0.5  # how long a lock waits for the waiter that it was got for
END_S = 1  # how long the server may take to end a transaction that has run out
SETTLE_S = 2.0 * END_S


class RowHold:
    """A transaction that is a lock."""

    def __init__(self, transaction: Transaction, request: Request, fence: int, until: float):
        self.transaction = transaction
        self.name = request.name
        self.owner = request.owner
        self.fence = fence
        self.until = until
        self.failed = False
        self.joined = False


class RowEngine(MysqlEngine):
    """Locks of transactions."""

    commits = True
    traits = Traits("correctness", "network", fence=True, push=True, revoke=False)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        settings, wire = self.settings, self.wire
        self._pool = Pool(world, settings, wire, 2)
        self._rows = RowTable(world, self._pool, settings.table)
        self._transactions = TransactionPool(
            world, settings, wire, _connector(world.flavor), self._ended
        )
        self._waiters = RowWaiters(
            world, settings, self._pool, self._rows, self._transactions, self._got
        )
        self._holds: dict[str, RowHold] = {}
        self._once = ReleaseOnce(world, self._holds)
        """Of owners whose time is over while the server may still have their lock."""
        self._doubtful: dict[str, RowHold] = {}
        self._timer = Timer(world, self._end_what_has_run_out, "fencelock-rows")
        self._closing = False

    def traits_on(self, server: Server) -> Traits:
        traits = RowEngine.traits
        if server.is_cluster:
            return traits._replace(safety="efficiency", advice=CLUSTER_ADVICE["row"])
        return traits

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if (hold := self._holds.get(request.owner)) is not None:
            grant = await self._again(hold, request)
            if grant is not None:
                return grant
        if not request.queue:
            return await self._try(request) or await self._refuse(request)
        self._waiters.join(request, self._holds)
        return Busy(LOOK_S, None, True)

    async def _try(self, request: Request) -> Grant | None:
        now, known = self.world.now(), self._rows.knows(request.name)
        transaction = await self._transactions.lend()
        try:
            statements = self._rows.lock(request, " NOWAIT", transaction)
            replies = await transaction.query(statements, self.settings.request_timeout)
        except ServerError as error:
            transaction.limits = ""
            await self._transactions.roll_back(transaction)
            if error.code in (LOCK_WAIT, NOWAIT, DEADLOCK):
                return None
            raise refused(error, self.settings.where) from error
        except BaseException:
            self._transactions.drop(transaction)
            raise
        if not (fence := replies[-1][1]):  # its row was removed
            await self._transactions.roll_back(transaction)
            self._rows.forget(request.name)
            return await self._try(request) if known else None
        self._rows.remember(request.name)
        self._add(transaction, request, fence, now + request.ttl)
        return granted(request.name, request.owner, fence, request.ttl, now)

    async def _refuse(self, request: Request) -> Grant | Busy:
        if request.waits:
            return Busy(LOOK_S)
        now = self.world.now()
        holder = await self._rows.holder(request.name)
        if holder is None:
            return Busy(LOOK_S)
        owner, fence, meta = holder
        if owner == request.owner:  # granted to it, through another client
            return granted(request.name, request.owner, fence, request.ttl, now)
        return Busy(LOOK_S, holder=meta)

    async def _again(self, hold: RowHold, request: Request) -> Grant | None:
        """The same owner comes once more, or claims what was got for it."""
        grant = granted(hold.name, hold.owner, hold.fence, request.ttl, self.world.now())
        (answer,) = await self.renew([grant])
        return answer if isinstance(answer, Grant) else None

    # Wait

    def _got(self, transaction: Transaction, request: Request, fence: int) -> None:
        """One that waited has it, and has a moment to claim it."""
        self._add(transaction, request, fence, self.world.now() + CLAIM_S)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._waiters.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._waiters.unwatch(request.owner)

    async def withdraw(self, request: Request) -> None:
        await self._waiters.withdraw(request.owner)
        if (hold := self._holds.pop(request.owner, None)) is not None:
            await self._roll_back(hold)
        else:
            await self._once.settled([request.owner], SETTLE_S)

    def _add(self, transaction: Transaction, request: Request, fence: int, until: float) -> None:
        self._holds[request.owner] = RowHold(transaction, request, fence, until)
        self._timer.expect(until)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for grant in grants:
            now, hold = self.world.now(), self._holds.get(grant.owner)
            if hold is not None and await self._keep(hold, grant):
                hold.until = now + grant.ttl
                answers.append(granted(grant.name, grant.owner, grant.fence, grant.ttl, now))
            else:
                await self._once.settled([grant.owner], SETTLE_S)
                answers.append(Gone("session", "the transaction that was the lock has ended"))
        return answers

    async def _keep(self, hold: RowHold, grant: Grant) -> bool:
        """Send a statement in the transaction, so that the server does not take it for idle.

        A holder that is using the connection at this moment does that already: then it is only
        looked from outside whether the session is there.
        """
        transaction, sql = hold.transaction, self._rows.extend(grant)
        transaction.limits = ""
        try:
            if transaction.is_open and not await transaction.query_if_idle(
                sql, max(1.0, grant.ttl)
            ):
                (reply,) = await self._pool.query(self._rows.alive(transaction))
                return reply.rows != [(None,)]
        except (FencelockError, ServerError):
            if not transaction.is_closed:
                raise
        if transaction.is_open:
            return True
        if self._holds.pop(hold.owner, None) is not None:  # else it is given back just now
            await self._roll_back(hold)
        return False

    async def _end_what_has_run_out(self) -> float:
        """Roll back what has run out."""
        now = self.world.now()
        for hold in list(self._holds.values()):
            if hold.until <= now:
                await self._give_up(hold)
        ends = [hold.until for hold in list(self._holds.values())]
        return min([*ends, self._transactions.trim()])

    async def _give_up(self, hold: RowHold) -> None:
        """The lease is over: the transaction must not go on, whatever its holder is doing.

        Whoever looks for the lease meanwhile waits: it is not gone before the server says so.
        """
        if not self._once.begin(hold.owner, hold):
            return  # its holder was quicker
        try:
            if self._holds.pop(hold.owner, None) is not None:
                await self._kill(hold.transaction)
        finally:
            self._once.done(hold.owner)

    async def _kill(self, transaction: Transaction) -> None:
        kill, await_end = self._rows.kill(transaction, END_S)
        try:
            await self._pool.query(kill)
            await self._pool.query(await_end)
        except FencelockError:
            pass
        self._transactions.drop(transaction)

    # Release

    def connection(self, grant: Grant) -> object:
        hold = self._holds.get(grant.owner)
        if hold is None:
            raise Unavailable(f"the transaction that was the lock on {grant.name!r} has ended")
        hold.joined = True
        return hold.transaction.connection

    def mark_failed(self, grant: Grant) -> None:
        if (hold := self._holds.get(grant.owner)) is not None:
            hold.failed = True

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.pop(grant.owner, None)
        if hold is None:
            await self._once.settled([grant.owner], SETTLE_S)
            return await self._look_up(grant)
        transaction = hold.transaction
        if not transaction.is_open:
            await self._roll_back(hold)
            return False  # its holder has ended the transaction, or the server has
        # Who is told of a loss, for which the holder's own clock is enough, must find nothing kept.
        in_time = min(hold.until, grant.valid_until) > self.world.now()
        keep = in_time and not hold.failed
        statements = [self._rows.free(hold.name), "COMMIT"] if keep else ["ROLLBACK"]
        try:
            await transaction.query(statements, self.settings.request_timeout)
        except ServerError as error:
            await self._roll_back(hold)
            raise refused(error, self.settings.where) from error
        except OutcomeUnknown:
            self._transactions.drop(transaction)
            if not keep:
                return False
            self._doubtful[grant.owner] = hold
            raise
        except Unavailable:
            self._transactions.drop(transaction)
            raise
        if hold.joined:  # its holder may have changed it in any way
            self._transactions.drop(transaction)
        else:
            self._transactions.give_back(transaction)
        await self._rows.clean_up()
        return in_time

    async def _roll_back(self, hold: RowHold) -> None:
        if hold.joined:
            self._transactions.drop(hold.transaction)
        else:
            await self._transactions.roll_back(hold.transaction)

    async def _look_up(self, grant: Grant) -> bool:
        """Find out what has become of a commit that was not answered: the fence tells."""
        hold = self._doubtful.get(grant.owner)
        if hold is None:
            return False
        busy, fence = await self._rows.fence(grant.name, hold.transaction)
        if busy or fence > hold.fence:
            raise OutcomeUnknown("nobody knows whether the transaction was committed")
        self._doubtful.pop(grant.owner, None)
        if fence == hold.fence:
            return True
        raise EngineError("the transaction was not committed: all that was done in it is undone")

    def _ended(self, transaction: Transaction) -> None:
        """The server has ended a connection: tell who held by it."""
        owners = {o for o, hold in list(self._holds.items()) if hold.transaction is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing:
            self.tell_gone(owners, Gone("session", "the session of its transaction has ended"))

    # Inspect

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._rows.holdings("name=", name)))

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._rows.holdings(f"LEFT(name,{len(prefix.encode())})=", prefix)

    # Close

    async def close(self) -> None:
        self._closing = True
        self._timer.close_nowait()
        await self._waiters.close()
        await self._timer.close()
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closing = True
        self._timer.close_nowait()
        self._waiters.close_nowait()
        for hold in list(self._holds.values()):
            self._transactions.drop(hold.transaction)
        self._transactions.close()
        self._pool.close()


def _connector(flavor: Flavor) -> Connect:
    if flavor == "asyncio":
        from .wire import transaction_aio

        return transaction_aio.connect_transaction
    from .wire import transaction_threads

    return transaction_threads.connect_transaction
