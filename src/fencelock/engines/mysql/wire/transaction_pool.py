"""The connections of ``mode=row``: one for each lock that is held or waited for, used again."""

from __future__ import annotations

from collections.abc import Callable

from ....errors import FencelockError
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ...timer import NEVER
from ..settings import Settings
from .codec import ServerError
from .connection import Wire
from .transaction import Connect, Transaction

SPARE_S = 5.0  # how long a connection that was needed is kept beyond the size of the pool
SPARE_MAX = 64


class TransactionPool:
    """Lends connections, and watches for the end of each."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        wire: Wire,
        connect: Connect,
        ended: Callable[[Transaction], None],
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._connect = connect
        self._ended = ended
        self._spare: list[tuple[Transaction, float]] = []
        """Those that no lock uses, and since when; the last one is used first."""
        self._mutex = world.mutex()
        self._monitor: Hangups | None = None
        self._watched: dict[Transaction, Callable[[], None]] = {}
        self._closed = False

    async def lend(self) -> Transaction:
        """A connection for one lock."""
        while (spare := self._take()) is not None:
            if not spare.is_closed:
                return spare
            self.drop(spare)
        transaction = await self._connect(self._world, self._settings)
        if self._monitor is None:
            self._monitor = self._wire.disconnect_monitor()
        self._watched[transaction] = lambda: self._disconnected(transaction)
        self._monitor.watch(transaction.socket, self._watched[transaction])
        return transaction

    def _take(self) -> Transaction | None:
        with self._mutex:
            return self._spare.pop()[0] if self._spare else None

    def _disconnected(self, transaction: Transaction) -> None:
        """The server has ended a connection."""
        self._watched.pop(transaction, None)
        transaction.disconnected()
        self._ended(transaction)

    async def roll_back(self, transaction: Transaction) -> None:
        """Roll back, and keep the connection if that works."""
        try:
            if not transaction.is_closed:
                await transaction.query(["ROLLBACK"], self._settings.request_timeout)
        except (FencelockError, ServerError):
            self.drop(transaction)
        self.give_back(transaction)

    def give_back(self, transaction: Transaction) -> None:
        """Keep a connection for the next lock.

        As many as were in use at once, and not only as many as ``pool`` says: a lock has one for as
        long as it is held, and to connect costs more than all the rest. Those that are more than
        ``pool`` and have not been needed for a while are closed.
        """
        if transaction.is_closed or self._closed or len(self._spare) >= SPARE_MAX:
            self.drop(transaction)
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
            self.drop(oldest)

    def drop(self, transaction: Transaction) -> None:
        """Close a connection, and with it a transaction that goes on."""
        ended = self._watched.pop(transaction, None)
        if self._monitor is not None and ended is not None:
            self._monitor.forget(ended)
        transaction.close()

    def close(self) -> None:
        """End those that no lock uses, and whatever comes back; watch no more."""
        self._closed = True
        while (spare := self._take()) is not None:
            self.drop(spare)
        if self._monitor is not None:
            self._monitor.close()
