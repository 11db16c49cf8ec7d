"""Connections for transactions that hold a lock: each belongs to one owner at a time.

One that lay idle may have died meanwhile, and one that its holder has used may have been changed in
any way: the first is replaced, the second is not used again.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from .modes import Transaction, Wire
from .statements import BoundStatements

SPARE_MAX = 8


class Stock:
    """The connections of one client that hold no lock, or nobody knows yet whether they do."""

    def __init__(
        self, wire: Wire, say: BoundStatements, ended: Callable[[Transaction], None]
    ) -> None:
        self._wire = wire
        self._say = say
        self._ended = ended
        self._spare: list[Transaction] = []
        self._astray: dict[str, Transaction] = {}
        """Those of owners whose call has not come back: it may have been cancelled."""

    async def begin(self, owner: str) -> Transaction:
        """A new transaction, on a connection that nobody else uses."""
        while self._spare:
            transaction = self._astray[owner] = self._spare.pop()
            try:
                await transaction.ask(self._say.begin)
            except (Unavailable, OutcomeUnknown):
                transaction.drop()  # it has died while it lay idle
            else:
                return transaction
        transaction = self._astray[owner] = await self._wire.transaction()
        transaction.on_end(lambda: self._ended(transaction))
        transaction.pid = int((await transaction.ask(self._say.lift))[0][1] or 0)
        await transaction.ask(self._say.begin)
        return transaction

    def arrived(self, owner: str) -> Transaction | None:
        """The call of this owner has come back, or is called off: whoever asks now answers for it.

        Return its connection, if it had one.
        """
        return self._astray.pop(owner, None)

    async def undo(self, transaction: Transaction, used: bool = False) -> None:
        """Roll back, and keep the connection, unless its holder worked with it."""
        try:
            await transaction.ask(self._say.rollback)
        except BaseException as error:
            transaction.drop()
            if not isinstance(error, FencelockError):
                raise
        self.put_back(transaction, used)

    def put_back(self, transaction: Transaction, used: bool) -> None:
        """Its transaction has ended; ``used`` says that the holder worked with the connection."""
        if used or transaction.dead or len(self._spare) >= SPARE_MAX:
            transaction.drop()
        else:
            self._spare.append(transaction)

    def close(self) -> None:
        for transaction in self._spare:
            transaction.drop()
