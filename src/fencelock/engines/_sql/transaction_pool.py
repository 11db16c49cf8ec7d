"""Connections for transactions that hold a lock: each belongs to one owner at a time.

An idle connection may have died, and a connection that its holder has used may have been changed in
any way: the first is replaced, the second is not used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from ...errors import FencelockError, OutcomeUnknown, Unavailable

SPARE_MAX = 8


class Transaction(Protocol):
    """A connection of the driver's, and its transaction."""

    dead: bool
    """Whether the connection has ended."""

    @property
    def connection(self) -> Any:
        """The driver's connection, which the holder is given."""
        ...

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, so that only a rollback is possible."""
        ...

    async def wait_briefly(self, seconds: float) -> None:
        """Wait a moment for the lock's statement, where waiting in this thread is cheaper."""
        ...

    def drop(self) -> None:
        """End the connection, and with it an open transaction."""
        ...


T = TypeVar("T", bound=Transaction)


class TransactionPool(Generic[T]):
    """The connections of one client that hold no lock, or of which that is not known yet."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[T]],
        begin: Callable[[T], Awaitable[object]],
        roll_back: Callable[[T], Awaitable[object]],
        spare_max: int = SPARE_MAX,
    ) -> None:
        self._connect = connect
        self._begin = begin
        self._roll_back = roll_back
        self._spare_max = spare_max
        self._spare: list[T] = []
        self._lent: dict[str, T] = {}
        """By owner: connections of calls that have not returned, and may have been cancelled."""
        self._closed = False

    async def begin(self, owner: str) -> T:
        """Begin a transaction, on a connection that no other owner uses."""
        while self._spare:
            transaction = self._lent[owner] = self._spare.pop()
            try:
                await self._begin(transaction)
            except (Unavailable, OutcomeUnknown):
                transaction.drop()  # it has died while it was idle
            else:
                return transaction
        transaction = self._lent[owner] = await self._connect()
        if self._closed:
            transaction.drop()
        await self._begin(transaction)
        return transaction

    def end_loan(self, owner: str) -> T | None:
        """Return the connection that an owner's call was lent, if any; it is lent no longer.

        The call has returned or was cancelled: from now on the caller is responsible for the
        connection.
        """
        return self._lent.pop(owner, None)

    async def undo(self, transaction: T, used: bool = False) -> None:
        """Roll back, and keep the connection, unless its holder has used it."""
        try:
            await self._roll_back(transaction)
        except BaseException as error:
            transaction.drop()
            if not isinstance(error, FencelockError):
                raise
        self.put_back(transaction, used)

    def put_back(self, transaction: T, used: bool) -> None:
        """Keep a connection whose transaction has ended, unless its holder has used it."""
        if used or self._closed or transaction.dead or len(self._spare) >= self._spare_max:
            transaction.drop()
        else:
            self._spare.append(transaction)

    def close(self) -> None:
        """End all connections, also those of calls that have not returned."""
        self._closed = True
        for transaction in [*self._spare, *self._lent.values()]:
            transaction.drop()
