"""``mode=row``: a lock is a locked row, in a transaction that its holder may join.

What the holder does over ``lease.connection`` is committed together with the end of the lock, or
not at all: there is no moment in which the data is written and the lock is not held. Release
commits; a body that raised is rolled back.

``rows.py`` has the statements, ``transactions.py`` the connections, and ``waiters.py`` those who
wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from .codec import ServerError
from .faults import DEADLOCK, LOCK_WAIT, refused
from .link import Link
from .mode import Mode
from .pool import Pool
from .rows import Rows
from .sentinel import Sentinel
from .server import Server
from .settings import Settings
from .transaction import Transaction
from .transactions import Transactions
from .waiters import Waiters
from .wire import Wire

NOWAIT = 3572  # how MySQL says that a row is locked; MariaDB says LOCK_WAIT
LOOK_S = 5.0
CLAIM_S = 0.5  # how long a lock waits for the waiter that it was got for
CLOSE_S = 2.0


class _Hold:
    """A transaction that is a lock."""

    def __init__(self, transaction: Transaction, request: Request, fence: int, until: float):
        self.transaction = transaction
        self.name = request.name
        self.owner = request.owner
        self.fence = fence
        self.until = until
        self.spoiled = False
        self.joined = False


class RowMode(Mode):
    """Locks of transactions."""

    promises = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=False,
        push=True,
        durable=False,
        revoke=False,
    )

    def __init__(self, world: World, settings: Settings, wire: Wire) -> None:
        super().__init__(world, settings, wire)

        def dial() -> Awaitable[Link]:
            return wire.dial(settings)

        self._pool = Pool(world, dial, settings, 2)
        self._rows = Rows(world, self._pool, settings.table)
        self._transactions = Transactions(world, settings, wire, self._ended)
        self._holds: dict[str, _Hold] = {}
        self._waiters = Waiters(
            world, settings, self._pool, self._rows, self._transactions, self._got
        )
        self._doubtful: dict[str, _Hold] = {}
        self._sentinel = Sentinel(world, self._watch_over)
        self._closing = False

    def traits(self, server: Server) -> Traits:
        if not server.is_cluster:
            return self.promises
        return self.promises._replace(
            safety="efficiency",
            advice="use mode=lease: each node of this cluster has row locks of its own",
        )

    # Taking

    async def acquire(self, request: Request) -> Grant | Busy:
        if (hold := self._holds.get(request.owner)) is not None:
            grant = await self._again(hold, request)
            if grant is not None:
                return grant
        if not request.queue:
            return await self.world.shield(self._try(request)) or await self._refuse(request)
        self._waiters.stand(request, self._holds)
        return Busy(LOOK_S, None, True)

    async def _try(self, request: Request) -> Grant | None:
        now, known = self.world.now(), self._rows.knows(request.name)
        transaction = await self._transactions.lend()
        try:
            statements = self._rows.lock(request, " NOWAIT", transaction)
            replies = await transaction.ask(statements, self.settings.patience)
        except ServerError as error:
            transaction.limits = ""
            await self._transactions.undo(transaction)
            if error.code in (LOCK_WAIT, NOWAIT, DEADLOCK):
                return None
            raise refused(error, self.settings.where) from error
        except BaseException:
            self._transactions.end(transaction)
            raise
        if not (fence := replies[-1][1]):  # its row was removed
            await self._transactions.undo(transaction)
            self._rows.forget(request.name)
            return await self._try(request) if known else None
        self._rows.note(request.name)
        self._note(transaction, request, fence, now + request.ttl)
        return granted(request.name, request.owner, fence, request.ttl, now)

    def _note(self, transaction: Transaction, request: Request, fence: int, until: float) -> None:
        self._holds[request.owner] = _Hold(transaction, request, fence, until)
        self._sentinel.expect(until)

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

    async def _again(self, hold: _Hold, request: Request) -> Grant | None:
        """The same owner asks once more, or claims what was got for it."""
        grant = granted(hold.name, hold.owner, hold.fence, request.ttl, self.world.now())
        (answer,) = await self.renew([grant])
        return answer if isinstance(answer, Grant) else None

    # Waiting

    def _got(self, transaction: Transaction, request: Request, fence: int) -> None:
        """One that waited has it, and has a moment to claim it."""
        self._note(transaction, request, fence, self.world.now() + CLAIM_S)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._waiters.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._waiters.unwatch(request.owner)

    # Keeping

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for grant in grants:
            now, hold = self.world.now(), self._holds.get(grant.owner)
            if hold is not None and await self._keep(hold, grant):
                hold.until = now + grant.ttl
                answers.append(granted(grant.name, grant.owner, grant.fence, grant.ttl, now))
            else:
                answers.append(Gone("session", "the transaction that was the lock has ended"))
        return answers

    async def _keep(self, hold: _Hold, grant: Grant) -> bool:
        """Say a word in the transaction, so that the server does not take it for idle.

        A holder that is using the connection at this moment says enough by that: then it is only
        looked from outside whether the session is there.
        """
        transaction, word = hold.transaction, self._rows.extend(grant)
        transaction.limits = ""
        try:
            if transaction.is_open and not await transaction.whisper(word, max(1.0, grant.ttl)):
                (reply,) = await self._pool.ask(f"SELECT IS_USED_LOCK('{transaction.badge}')")
                return reply.rows != [(None,)]
        except (FencelockError, ServerError):
            if not transaction.is_over:
                raise
        if transaction.is_open:
            return True
        self._holds.pop(hold.owner, None)
        await self._undo(hold)
        return False

    async def _watch_over(self) -> float:
        """Roll back what has run out."""
        now = self.world.now()
        for hold in list(self._holds.values()):
            if hold.until <= now and self._holds.pop(hold.owner, None) is not None:
                await self._give_up(hold)
        ends = [hold.until for hold in list(self._holds.values())]
        return min([*ends, self._transactions.trim()])

    async def _give_up(self, hold: _Hold) -> None:
        """The lease is over: the transaction must not go on, whatever its holder is doing."""
        try:
            await self._pool.ask(f"KILL IS_USED_LOCK('{hold.transaction.badge}')")
        except FencelockError:
            pass
        self._transactions.end(hold.transaction)

    # Giving back

    def connection(self, grant: Grant) -> object:
        hold = self._holds.get(grant.owner)
        if hold is None:
            raise Unavailable(f"the transaction that was the lock on {grant.name!r} has ended")
        hold.joined = True
        return hold.transaction.connection

    def spoil(self, grant: Grant) -> None:
        if (hold := self._holds.get(grant.owner)) is not None:
            hold.spoiled = True

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.pop(grant.owner, None)
        if hold is None:
            return await self._look_up(grant)
        in_time, transaction = hold.until > self.world.now(), hold.transaction
        if not transaction.is_open:
            await self._undo(hold)
            return False  # its holder has ended the transaction, or the server has
        statements = ["ROLLBACK"]
        if not hold.spoiled:
            statements = [self._rows.free(hold.name), "COMMIT"]
        try:
            await transaction.ask(statements, self.settings.patience)
        except ServerError as error:
            await self._undo(hold)
            raise refused(error, self.settings.where) from error
        except OutcomeUnknown:
            self._transactions.end(transaction)
            if not hold.spoiled:
                self._doubtful[grant.owner] = hold
                raise
            return False
        except Unavailable:
            self._transactions.end(transaction)
            raise
        if hold.joined:  # its holder may have changed it in any way
            self._transactions.end(transaction)
        else:
            self._transactions.put_by(transaction)
        await self._rows.tidy()
        return in_time

    async def _undo(self, hold: _Hold) -> None:
        if hold.joined:
            self._transactions.end(hold.transaction)
        else:
            await self._transactions.undo(hold.transaction)

    async def _look_up(self, grant: Grant) -> bool:
        """Find out what has become of a commit that was not answered: the fence tells."""
        hold = self._doubtful.get(grant.owner)
        if hold is None:
            return False
        busy, fence = await self._rows.fence(grant.name, hold.transaction.badge)
        if busy or fence > hold.fence:
            raise OutcomeUnknown("nobody knows whether the transaction was committed")
        self._doubtful.pop(grant.owner, None)
        if fence == hold.fence:
            return True
        raise EngineError("the transaction was not committed: all that was done in it is undone")

    async def withdraw(self, request: Request) -> None:
        await self._waiters.call_off(request.owner)
        if (hold := self._holds.pop(request.owner, None)) is not None:
            await self._undo(hold)

    def _ended(self, transaction: Transaction) -> None:
        """The server has ended a connection: tell who held by it."""
        owners = {o for o, hold in list(self._holds.items()) if hold.transaction is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session of its transaction has ended"))

    # Looking

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._rows.holdings("name=", name)))

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._rows.holdings(f"LEFT(name,{len(prefix.encode())})=", prefix)

    # The end

    async def close(self) -> None:
        self.abandon()
        await self._waiters.close()
        await self._sentinel.close(self.world.now() + CLOSE_S)
        for hold in list(self._holds.values()):
            self._transactions.end(hold.transaction)
        self._transactions.close()
        self._pool.close()

    def abandon(self) -> None:
        self._closing = True
        self._sentinel.abandon()
        self._waiters.abandon()
        self._transactions.abandon()
