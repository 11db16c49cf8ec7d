"""The locks of ``mode=row`` from when they are granted to their end: renewed, lost, committed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Gone, Grant, Request, granted
from ...world import Signal, World
from .errors import refused
from .mode import Mode
from .row_sql import Rows
from .sentinel import Sentinel
from .settings import Settings
from .wire.codec import ServerError
from .wire.connection import Link, Wire
from .wire.pool import Pool
from .wire.transaction import Transaction
from .wire.transaction_pool import Transactions

END_S = 1  # how long the server may take to end a transaction that has run out


class Hold:
    """A transaction that is a lock."""

    def __init__(self, transaction: Transaction, request: Request, fence: int, until: float):
        self.transaction = transaction
        self.name = request.name
        self.owner = request.owner
        self.fence = fence
        self.until = until
        self.failed = False
        self.joined = False


class RowKeeping(Mode):
    """What a client does with the transactions by which it holds."""

    def __init__(self, world: World, settings: Settings, wire: Wire) -> None:
        super().__init__(world, settings, wire)

        def dial() -> Awaitable[Link]:
            return wire.dial(world, settings)

        self._pool = Pool(world, dial, settings, 2)
        self._rows = Rows(world, self._pool, settings.table)
        self._transactions = Transactions(world, settings, wire, self._ended)
        self._holds: dict[str, Hold] = {}
        self._ending: dict[str, Signal] = {}
        """Owners whose time is over while the server may still have their lock."""
        self._doubtful: dict[str, Hold] = {}
        self._sentinel = Sentinel(world, self._watch_over)
        self._closing = False

    def _note(self, transaction: Transaction, request: Request, fence: int, until: float) -> None:
        self._holds[request.owner] = Hold(transaction, request, fence, until)
        self._sentinel.expect(until)

    # Keeping

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for grant in grants:
            now, hold = self.world.now(), self._holds.get(grant.owner)
            if hold is not None and await self._keep(hold, grant):
                hold.until = now + grant.ttl
                answers.append(granted(grant.name, grant.owner, grant.fence, grant.ttl, now))
            else:
                await self._settled(grant.owner)
                answers.append(Gone("session", "the transaction that was the lock has ended"))
        return answers

    async def _keep(self, hold: Hold, grant: Grant) -> bool:
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
        if self._holds.pop(hold.owner, None) is not None:  # else it is given back just now
            await self._undo(hold)
        return False

    async def _watch_over(self) -> float:
        """Roll back what has run out."""
        now = self.world.now()
        for hold in list(self._holds.values()):
            if hold.until <= now:
                await self._give_up(hold)
        ends = [hold.until for hold in list(self._holds.values())]
        return min([*ends, self._transactions.trim()])

    async def _give_up(self, hold: Hold) -> None:
        """The lease is over: the transaction must not go on, whatever its holder is doing.

        Whoever asks for the lease meanwhile waits: it is not gone before the server says so.
        """
        ending = self._ending[hold.owner] = self.world.signal()
        try:
            known = self._holds.get(hold.owner) is hold  # else its holder was quicker
            if known and self._holds.pop(hold.owner, None) is not None:
                await self._kill(hold.transaction)
        finally:
            del self._ending[hold.owner]
            ending.set()

    async def _kill(self, transaction: Transaction) -> None:
        badge = f"'{transaction.badge}'"
        try:
            await self._pool.ask(f"KILL IS_USED_LOCK({badge})")
            # The badge is free when the session has ended, and by then its transaction has.
            await self._pool.ask(f"SELECT GET_LOCK({badge},{END_S}),RELEASE_LOCK({badge})")
        except FencelockError:
            pass
        self._transactions.end(transaction)

    async def _settled(self, owner: str) -> None:
        if (ending := self._ending.get(owner)) is not None:
            await self.world.wait(ending, self.world.now() + 2 * END_S)

    # Giving back

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
            await self._settled(grant.owner)
            return await self._look_up(grant)
        transaction = hold.transaction
        if not transaction.is_open:
            await self._undo(hold)
            return False  # its holder has ended the transaction, or the server has
        # Who is told of a loss, for which the holder's own clock is enough, must find nothing kept.
        in_time = min(hold.until, grant.valid_until) > self.world.now()
        keep = in_time and not hold.failed
        statements = [self._rows.free(hold.name), "COMMIT"] if keep else ["ROLLBACK"]
        try:
            await transaction.ask(statements, self.settings.request_timeout)
        except ServerError as error:
            await self._undo(hold)
            raise refused(error, self.settings.where) from error
        except OutcomeUnknown:
            self._transactions.end(transaction)
            if not keep:
                return False
            self._doubtful[grant.owner] = hold
            raise
        except Unavailable:
            self._transactions.end(transaction)
            raise
        if hold.joined:  # its holder may have changed it in any way
            self._transactions.end(transaction)
        else:
            self._transactions.put_by(transaction)
        await self._rows.tidy()
        return in_time

    async def _undo(self, hold: Hold) -> None:
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

    def _ended(self, transaction: Transaction) -> None:
        """The server has ended a connection: tell who held by it."""
        owners = {o for o, hold in list(self._holds.items()) if hold.transaction is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session of its transaction has ended"))
