"""``mode=row``: a lock is a locked row, in a transaction that its holder may join.

What the holder does over ``lease.connection`` is committed together with the end of the lock, or
not at all: there is no moment in which the data is written and the lock is not held. Release
commits; a body that raised is rolled back.

``rows.py`` has the statements, ``transactions.py`` the connections, ``waiters.py`` those who wait,
and ``row_keeping.py`` what becomes of a lock once it is granted.
"""

from __future__ import annotations

from ...model import Busy, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from .errors import DEADLOCK, LOCK_WAIT, refused
from .row_keeping import Hold, RowKeeping
from .row_waiters import Waiters
from .server import Server
from .settings import Settings
from .wire.codec import ServerError
from .wire.connection import Wire
from .wire.transaction import Transaction

NOWAIT = 3572  # how MySQL says that a row is locked; MariaDB says LOCK_WAIT
LOOK_S = 5.0
CLAIM_S = 0.5  # how long a lock waits for the waiter that it was got for
CLOSE_S = 2.0


class RowMode(RowKeeping):
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
        self._waiters = Waiters(
            world, settings, self._pool, self._rows, self._transactions, self._got
        )

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
            return await self._try(request) or await self._refuse(request)
        self._waiters.stand(request, self._holds)
        return Busy(LOOK_S, None, True)

    async def _try(self, request: Request) -> Grant | None:
        now, known = self.world.now(), self._rows.knows(request.name)
        transaction = await self._transactions.lend()
        try:
            statements = self._rows.lock(request, " NOWAIT", transaction)
            replies = await transaction.ask(statements, self.settings.request_timeout)
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

    async def _again(self, hold: Hold, request: Request) -> Grant | None:
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

    async def withdraw(self, request: Request) -> None:
        await self._waiters.call_off(request.owner)
        if (hold := self._holds.pop(request.owner, None)) is not None:
            await self._undo(hold)
        else:
            await self._settled(request.owner)

    # Looking

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._rows.holdings("name=", name)))

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._rows.holdings(f"LEFT(name,{len(prefix.encode())})=", prefix)

    # The end

    async def close(self) -> None:
        self._closing = True
        self._sentinel.close_nowait()
        await self._waiters.close()
        await self._sentinel.close(self.world.now() + CLOSE_S)
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closing = True
        self._sentinel.close_nowait()
        self._waiters.close_nowait()
        for hold in list(self._holds.values()):
            self._transactions.end(hold.transaction)
        self._transactions.close()
        self._transactions.close_nowait()
        self._pool.close()
