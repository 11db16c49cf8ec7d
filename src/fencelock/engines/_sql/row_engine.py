"""Locks that live in a transaction which their holder may join.

``lease.connection`` is the connection of that transaction, so what is done over it commits together
with the lock's end: there is no moment in which the data is written and the lock is not held.
Release commits.

* **The end of a lease.** A transaction that is idle for longer than its ttl is ended by the server.
  Renewal is a statement on that very connection, unless its holder is using it, and a check over
  another connection that the transaction is still open. A lease that is not renewed is rolled back
  in the background.
* **Only a body that ended well commits.** Whatever else ends the hold rolls back: an error, a
  client that is closed, a program that ends, a dropped lease, a loss that its holder was told of.
* **Loss**: the session or the transaction has ended, for whatever reason. Nothing can have been
  committed in it after that. The holder is told at the moment when the kernel knows that the
  connection was closed; else at the next renewal.
* **A commit with an unknown outcome is looked up**: the server keeps the transaction's status.

The engine of a database implements the abstract methods: how it locks, renews, commits and looks
up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, NamedTuple

from ... import observe
from ...engine import Address
from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Busy, Gone, Grant, Request, granted
from ...world import World, snapshot
from .hold import TransactionHold, renewal_timeout
from .hold_expiry import HoldExpiry
from .release_once import ReleaseOnce
from .server_queue import LOOK_S, ServerQueue, ServerQueueEngine, Waiter
from .transaction_pool import T, TransactionPool

WHY_MAX = 100
_ENDED = "the transaction that held it has ended"
_NOT_COMMITTED = "the transaction was not committed: all that was done in it is undone"


class Locked(NamedTuple):
    """The server's reply to a transaction that requested a lock."""

    fence: int | None
    """None when nothing was locked."""
    xid: str
    """The id under which the server keeps the transaction's status."""
    waited: float = 0.0
    """How long the server made it wait, in seconds."""


class Unresolved(NamedTuple, Generic[T]):
    """A transaction whose outcome is not known yet."""

    hold: TransactionHold[T]
    commits: bool
    """Whether it was to be committed, not rolled back."""


class RowEngine(ServerQueueEngine[T, Locked]):
    """The protocol of transactions that hold a lock."""

    commits = True

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._holds: dict[str, TransactionHold[T]] = {}
        self._unresolved: dict[str, Unresolved[T]] = {}
        """By owner: transactions whose last statement is under way, or was not answered."""
        self._why: dict[str, Gone] = {}
        """By owner: why a hold was gone when it was released."""
        self._pool: TransactionPool[T] = TransactionPool(
            self._connect, self._begin, self._roll_back
        )
        self._queue = ServerQueue(world, self._cancel)
        self._once = ReleaseOnce(world, self._holds)
        self._expiry = HoldExpiry(world, self._holds, self._give_up)
        self._closing = False
        self._warned = False
        """Whether it was said that holders cannot be shown."""
        self._settle_s = 5.0
        """How many seconds a release waits for another that is under way."""

    # Implemented for each database

    @abstractmethod
    async def _connect(self) -> T:
        """Open a connection, and have ``_ended`` called when it ends."""

    @abstractmethod
    async def _begin(self, transaction: T) -> object: ...

    @abstractmethod
    async def _roll_back(self, transaction: T) -> object: ...

    @abstractmethod
    async def _try_lock(self, request: Request, transaction: T) -> Locked | None:
        """Lock without waiting; None when another transaction has the lock."""

    async def _before_waiting(self, request: Request) -> None:
        """Make sure that there is something to lock."""

    @abstractmethod
    def _send_lock(
        self, request: Request, transaction: T, done: Callable[[Locked | Exception], None]
    ) -> None:
        """Send the statement that waits for a lock in the server's queue."""

    @abstractmethod
    async def _cancel(self, transaction: T, within: float) -> object:
        """Have the server cancel the statement that a connection waits for."""

    @abstractmethod
    async def _granted(self, request: Request, hold: TransactionHold[T]) -> None:
        """Show the holder of a new hold to others, before its owner is told of it.

        If it fails, the lock is held all the same.
        """

    @abstractmethod
    async def _heartbeat(self, hold: TransactionHold[T], grant: Grant) -> object:
        """Run a statement in the transaction, so that the server does not take it for idle."""

    @abstractmethod
    async def _confirm(self, holds: Mapping[Grant, TransactionHold[T]]) -> set[str]:
        """Extend holds; return the owners whose transactions are still open."""

    @abstractmethod
    async def _finish(self, hold: TransactionHold[T], commits: bool) -> object:
        """Commit or roll back, once no statement of the holder's is using the connection."""

    @abstractmethod
    def _was_failed(self, error: FencelockError) -> bool:
        """Return whether a commit was refused because an earlier statement had failed."""

    @abstractmethod
    async def _look_up(
        self, hold: TransactionHold[T]
    ) -> Literal["committed", "aborted", "in progress", "unknown"]:
        """Return the outcome of a transaction whose last statement was not answered."""

    @abstractmethod
    async def _terminate(self, transaction: T) -> None:
        """Roll back, even while the holder is using the connection."""

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if (hold := self._holds.get(request.owner)) is not None:
            return await self._again(request, hold)
        if (waiter := self._queue.waiters.get(request.owner)) is not None:
            return await self._claim(waiter)
        return await (self._wait_in_queue(request) if request.queue else self._try(request))

    async def _try(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()
        try:
            transaction = await self._pool.begin(request.owner)
            locked = await self._try_lock(request, transaction)
        except FencelockError:  # after any other exception, ``withdraw`` cleans up
            self._drop_loan(request.owner)
            raise
        if locked is not None:
            return await self._hold(request, transaction, locked, asked_at)
        self._pool.end_loan(request.owner)
        await self._pool.undo(transaction)
        return await self._busy(request)

    async def _hold(
        self, request: Request, transaction: T, locked: Locked, asked_at: float
    ) -> Grant:
        owner, fence = request.owner, locked.fence or 0
        hold = TransactionHold(request, transaction, fence, asked_at, locked.xid)
        self._holds[owner] = hold
        self._pool.end_loan(owner)
        self._expiry.expect(hold.until)
        try:
            await self._granted(request, hold)
        except FencelockError as error:  # the lock is held: it is only not known who holds it
            if not self._warned:
                self._warned = True
                observe.warn(f"{request.name!r} is held, but nobody sees by whom: {error}")
        return granted(request.name, owner, fence, request.ttl, asked_at)

    def _drop_loan(self, owner: str) -> None:
        """End the connection of a call that failed: the server rolls back what it had locked."""
        if (lent := self._pool.end_loan(owner)) is not None:
            lent.drop()

    # Wait

    async def _wait_in_queue(self, request: Request) -> Grant | Busy:
        await self._before_waiting(request)
        try:
            transaction = await self._pool.begin(request.owner)
        except FencelockError:
            self._drop_loan(request.owner)
            raise
        waiter: Waiter[T, Locked] = Waiter(request, 0, transaction, self.world.now())
        await self._queue.join(waiter, lambda done: self._send_lock(request, transaction, done))
        self._pool.end_loan(request.owner)
        return await self._claim(waiter)

    async def _claim(self, waiter: Waiter[T, Locked]) -> Grant | Busy:
        answer, request = waiter.answer, waiter.request
        if answer is None:
            return Busy(LOOK_S, None, True)
        transaction = waiter.session
        self._queue.waiters.pop(request.owner, None)
        if isinstance(answer, Exception):
            transaction.drop()
            raise Unavailable(f"the session of a waiter has ended ({answer}): try again")
        if answer.fence is None:  # the row that it waited for was removed meanwhile
            await self._pool.undo(transaction)
            return await self._wait_in_queue(request)
        since = waiter.granted_at(answer.waited, self.world.now())
        return await self._hold(request, transaction, answer, since)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        alive = {g: hold for g in grants if (hold := await self._beat(g, now)) is not None}
        kept = await self._confirm(alive) if alive else set[str]()
        over = [grant.owner for grant in grants if grant.owner not in kept]
        why: dict[str, str] = {}
        for owner in over:  # last, since the others still have time to lose
            if (hold := self._holds.get(owner)) is not None:
                failed = hold.session.failed
                why[owner] = _ended_by(hold, failed) if hold.until > now else _ENDED
                await self._give_up(owner, hold)
        await self._once.settled(over, renewal_timeout(grants))
        answers: list[Grant | Gone] = []
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is not None and grant.owner in kept:
                hold.ttl, hold.until = grant.ttl, now + grant.ttl
                self._expiry.expect(hold.until)
                answers.append(granted(grant.name, grant.owner, grant.fence, grant.ttl, now))
            else:
                answers.append(Gone("session", why.get(grant.owner, _ENDED)))
        return answers

    async def _beat(self, grant: Grant, now: float) -> TransactionHold[T] | None:
        hold = self._holds.get(grant.owner)
        if hold is None or hold.until <= now or not hold.session.open:
            return None
        try:
            await self._heartbeat(hold, grant)
        except FencelockError:
            if self._holds.pop(grant.owner, None) is not None:
                hold.session.drop()
            return None
        return hold

    def _ended(self, transaction: T) -> None:
        """Handle the end of a connection: tell the owners whose transactions were on it."""
        owners = {o for o, hold in snapshot(self._holds) if hold.session is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing and self.on_gone is not None:
            self.on_gone(owners, Gone("session", "the session of its transaction has ended"))

    async def _give_up(self, owner: str, hold: TransactionHold[T]) -> None:
        """Roll back the transaction of a lease that is over, unless another call does."""
        if not self._once.begin(owner, hold):
            return
        try:
            if self._holds.pop(owner, None) is not None and not hold.session.dead:
                await self._terminate(hold.session)
        finally:
            self._once.done(owner)

    # Release

    def mark_failed(self, grant: Grant) -> None:
        if (hold := self._holds.get(grant.owner)) is not None:
            hold.failed = True

    def connection(self, grant: Grant) -> object:
        if (hold := self._holds.get(grant.owner)) is None:
            raise Unavailable("the transaction of this lease has ended")
        hold.used = True
        return hold.session.connection

    async def release(self, grant: Grant) -> bool:
        """Commit if the body ended well and its holder was told of no loss; else roll back.

        That is decided before the commit is sent. From then on the commit's outcome decides.
        """
        owner, hold = grant.owner, self._holds.get(grant.owner)
        in_time = commits = False
        if hold is not None:
            in_time = min(hold.until, grant.valid_until) > self.world.now()
            commits = in_time and not hold.failed
            # First: if this call is interrupted, a repeated one looks up how far it came.
            self._unresolved[owner] = Unresolved(hold, commits)
            if self._holds.pop(owner, None) is not hold:  # another call is about to end it
                self._unresolved.pop(owner, None)
                hold = None
        if hold is None:
            await self._once.settled([owner], self._settle_s)
            return await self._resolve(owner)
        freed = await self._end(owner, hold, commits)
        self._unresolved.pop(owner, None)
        return freed and in_time

    async def _end(self, owner: str, hold: TransactionHold[T], commits: bool) -> bool:
        """Run the last statement of a transaction; False when the transaction had ended before."""
        transaction = hold.session
        if not transaction.open and not transaction.dead:
            return await self._was_ended(owner, hold, transaction.failed)
        try:
            await self._finish(hold, commits)
        except OutcomeUnknown:
            transaction.drop()
            raise
        except FencelockError as error:
            if transaction.dead:
                return False
            if commits and transaction.failed:  # the commit did not run
                return await self._was_ended(owner, hold, self._was_failed(error))
            transaction.drop()
            self._unresolved.pop(owner, None)
            if commits:
                raise EngineError(f"{_NOT_COMMITTED}: {error}") from error
            return True
        self._pool.put_back(transaction, hold.used)
        return True

    async def _was_ended(self, owner: str, hold: TransactionHold[T], failed: bool) -> bool:
        """Handle a transaction that ended before its block did: keep the reason."""
        if len(self._why) >= WHY_MAX:
            self._why.clear()
        self._why[owner] = Gone("session", _ended_by(hold, failed))
        await self._pool.undo(hold.session, hold.used)
        return False

    def why_gone(self, grant: Grant) -> Gone:
        return self._why.pop(grant.owner, None) or super().why_gone(grant)

    async def _resolve(self, owner: str) -> bool:
        """Look up the outcome of a transaction whose last statement was not answered."""
        unresolved = self._unresolved.get(owner)
        if unresolved is None:
            return False
        unresolved.hold.session.drop()  # the call that used it is gone
        fate = await self._look_up(unresolved.hold)
        if fate == "in progress":
            raise OutcomeUnknown("the server is still busy with the transaction")
        self._unresolved.pop(owner, None)
        if fate == "unknown":
            raise OutcomeUnknown("the server no longer knows what became of the transaction")
        if fate == "committed" or not unresolved.commits:
            return True
        raise EngineError(_NOT_COMMITTED)

    async def withdraw(self, request: Request) -> None:
        waiter = self._queue.waiters.get(request.owner)
        if waiter is not None:
            useful = await self._queue.cancel(waiter)  # if interrupted here, it can be repeated
            if self._queue.waiters.pop(request.owner, None) is not None and useful:
                await self._pool.undo(waiter.session)
        self._drop_loan(request.owner)  # its call was cancelled during a statement
        if (hold := self._holds.get(request.owner)) is not None:
            hold.failed = True
            await self.release(granted(request.name, request.owner, hold.fence, hold.ttl, 0.0))
        await self._once.settled([request.owner], self._settle_s)

    # The end

    async def close(self) -> None:
        self._closing = True
        await self._expiry.close()
        holding = [hold.session for hold in self._holds.values()]
        waiting = [waiter.session for waiter in self._queue.waiters.values()]
        self._pool.close()
        unresolved = [one.hold.session for one in self._unresolved.values()]
        for transaction in [*holding, *waiting, *unresolved]:
            transaction.drop()

    def close_nowait(self) -> None:
        self._expiry.close_nowait()


def _ended_by(hold: TransactionHold[T], failed: bool) -> str:
    """Return why a transaction has ended, and whether its holder ended it."""
    if not hold.used or hold.session.dead:
        return _ENDED
    if failed:
        return f"{_ENDED}: a statement over lease.connection has failed, which undid all of it"
    return (
        f"{_ENDED}: inside the block, by a commit, rollback or close of lease.connection. What "
        "was done before is as that left it, what came after was done without the lock"
    )
