"""The connections of ``mode=row``: one for each lock that is held or waited for, used again."""

from __future__ import annotations

from collections.abc import Callable

from ....errors import FencelockError
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..sentinel import NEVER
from ..settings import Settings
from .codec import ServerError
from .connection import Wire
from .transaction import Transaction

SPARE_S = 5.0  # how long a connection that was needed is kept beyond the size of the pool


SPARE_MAX = 64


class Transactions:
    """Lends connections, and listens for the end of each."""

    def __init__(
        self, world: World, settings: Settings, wire: Wire, ended: Callable[[Transaction], None]
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._ended = ended
        self._spare: list[tuple[Transaction, float]] = []
        """Those that no lock uses, and since when; the last one is used first."""
        self._mutex = world.mutex()
        self._hangups: Hangups | None = None
        self._listening: dict[Transaction, Callable[[], None]] = {}
        self._closed = False

    async def lend(self) -> Transaction:
        """A connection for one lock."""
        while (spare := self._take()) is not None:
            if not spare.is_over:
                return spare
            self.end(spare)
        transaction = await self._wire.join(self._world, self._settings)
        if self._hangups is None:
            self._hangups = self._wire.hangups()
        self._listening[transaction] = lambda: self._hang_up(transaction)
        self._hangups.watch(transaction.socket, self._listening[transaction])
        return transaction

    def _take(self) -> Transaction | None:
        with self._mutex:
            return self._spare.pop()[0] if self._spare else None

    def _hang_up(self, transaction: Transaction) -> None:
        """The server has ended a connection."""
        self._listening.pop(transaction, None)
        transaction.hang_up()
        self._ended(transaction)

    async def undo(self, transaction: Transaction) -> None:
        """Roll back, and keep the connection if that works."""
        try:
            if not transaction.is_over:
                await transaction.ask(["ROLLBACK"], self._settings.request_timeout)
        except (FencelockError, ServerError):
            self.end(transaction)
        self.put_by(transaction)

    def put_by(self, transaction: Transaction) -> None:
        """Keep a connection for the next lock.

        As many as were in use at once, and not only as many as ``pool`` says: a lock has one for as
        long as it is held, and to connect costs more than all the rest. Those that are more than
        ``pool`` and have not been needed for a while are closed.
        """
        if transaction.is_over or self._closed or len(self._spare) >= SPARE_MAX:
            self.end(transaction)
            return
        with self._mutex:
            self._spare.append((transaction, self._world.now()))
        self.trim()

    def trim(self) -> float:
        """Close what was not needed for a while; say when to look again."""
        while True:
            with self._mutex:
                if len(self._spare) <= self._settings.pool:
                    return NEVER
                oldest, since = self._spare[0]
                if since + SPARE_S > self._world.now():
                    return since + SPARE_S
                del self._spare[0]
            self.end(oldest)

    def end(self, transaction: Transaction) -> None:
        """Close a connection, and with it a transaction that goes on."""
        ended = self._listening.pop(transaction, None)
        if self._hangups is not None and ended is not None:
            self._hangups.forget(ended)
        transaction.close()

    def close(self) -> None:
        """End those that no lock uses, and whatever comes back."""
        self._closed = True
        while (spare := self._take()) is not None:
            self.end(spare)

    def close_nowait(self) -> None:
        """Listen no more."""
        if self._hangups is not None:
            self._hangups.close()
