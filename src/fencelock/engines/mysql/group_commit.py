"""Callers that come while others are served share a packet: many names, one commit.

A statement that takes or gives back a lock whose row is there may travel with those of others. The
packet is one transaction: first it locks the rows of all its names, *without waiting*, then each
statement runs as it would alone, and one commit makes all of them last. So a row that somebody has
locked holds up nobody who happened to be in the same packet: the server refuses at once and undoes
what there was, and each caller asks again by itself. It is the same after any other error.

Whoever comes while there is room goes at once and alone. The others stand in line, and the first of
them asks for all. A question that is not answered for long may be waiting for a row: then the line
goes another way.
"""

from __future__ import annotations

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...world import World
from .literals import text
from .wire.codec import Reply
from .wire.pool import Pool

BATCH_MAX = 64
BYTES_MAX = 1 << 18  # of a packet: the least that servers take is 1 MiB
HELD_UP_S = 0.01
SILENT_S = 15.0  # how long one who asks for others may take: an exception may have ended it
EVERYBODY = 1 << 30


class _Call:
    """One statement that somebody waits for."""

    __slots__ = ("batch", "in_line", "name", "reply", "signal", "sql", "unknown")

    def __init__(self, world: World, name: str, sql: str) -> None:
        self.name = name
        self.sql = sql
        self.signal = world.signal()
        """Set when it is done, or when it is to ask for others."""
        self.in_line = True
        """Whether nothing was sent for it yet."""
        self.batch: list[_Call] | None = None
        """Whom it asks for."""
        self.reply: Reply | None = None
        self.unknown = ""
        """Why nobody knows what became of it; without that and without a reply nothing has."""


class Batches:
    """The statements of one client that may travel together."""

    def __init__(self, world: World, pool: Pool, locks: str, lanes: int) -> None:
        self._world = world
        self._pool = pool
        self._lanes = lanes
        self._lock_all = f"SELECT COUNT(*) FROM {locks} FORCE INDEX (PRIMARY) WHERE name IN (%s)"
        self._mutex = world.mutex()
        self._under_way = 0
        self._line: list[_Call] = []

    def end(self) -> None:
        """Let everybody ask alone."""
        self._lanes = EVERYBODY

    async def ask(self, name: str, sql: str) -> Reply:
        """Have a statement run that needs no other row than that of this name, which is there."""
        with self._mutex:
            call = None
            if self._under_way < self._lanes:
                self._under_way += 1
            else:
                call = _Call(self._world, name, sql)
                self._line.append(call)
        if call is None:
            return await self._first(sql)
        interruption = await self._stand(call)
        if call.batch is not None:
            if len(call.batch) == 1 and interruption is None:
                return await self._first(sql)
            await self._lead(call.batch)
        if interruption is not None:
            raise interruption
        if call.unknown:
            raise OutcomeUnknown(call.unknown)
        if call.reply is None:
            (call.reply,) = await self._pool.ask(sql)
        return call.reply

    async def _first(self, sql: str) -> Reply:
        """Ask for nobody else, and let those go on who came meanwhile."""
        try:
            (reply,) = await self._pool.ask(sql)
            return reply
        finally:
            self._next()

    async def _stand(self, call: _Call) -> BaseException | None:
        """Wait to be answered or to be called; what interrupted that, if it has to be told later.

        Once its question is under way a caller stays until that has ended: what it asks next must
        not overtake.
        """
        interruption: BaseException | None = None
        while not call.signal.is_set():
            now = self._world.now()
            look_at = now + (HELD_UP_S if call.in_line else SILENT_S)
            try:
                if await self._world.wait(call.signal, look_at):
                    break
                if self._world.limit() <= self._world.now() or not call.in_line:
                    if self._leave(call):
                        raise Unavailable("the caller's time is over; nothing was sent")
                    if not call.signal.is_set():
                        raise OutcomeUnknown("whoever asked for this and for others is silent")
                self._hurry(call)
            except GeneratorExit:
                self._leave(call)
                raise
            except FencelockError:
                raise
            except BaseException as error:
                if self._leave(call):
                    raise
                interruption = error
        return interruption

    def _leave(self, call: _Call) -> bool:
        """Out of the line; False when it was called before."""
        with self._mutex:
            if call.in_line:
                call.in_line = False
                self._line.remove(call)
                return True
            return False

    def _hurry(self, call: _Call) -> None:
        """The line does not move: whoever stands there goes another way."""
        with self._mutex:
            if call.in_line:
                self._under_way += 1
                self._call_up()

    def _next(self) -> None:
        """Somebody has come back: those in line go, or there is room."""
        with self._mutex:
            if self._line:
                self._call_up()
            else:
                self._under_way -= 1

    def _call_up(self) -> None:
        """Have the first in line ask for as many as go into one packet."""
        count, size = 0, 0
        for call in self._line[:BATCH_MAX]:
            size += len(call.sql)
            if count and size > BYTES_MAX:
                break
            count += 1
        batch, self._line = self._line[:count], self._line[count:]
        for call in batch:
            call.in_line = False
        batch[0].batch = batch
        batch[0].signal.set()

    async def _lead(self, batch: list[_Call]) -> None:
        try:
            await self._world.shield(self._serve(batch))  # the others are not cancelled
        finally:
            for call in batch[1:]:
                call.signal.set()
            self._next()

    async def _serve(self, batch: list[_Call]) -> None:
        for call in batch:
            call.unknown = "whoever asked for this and for others was interrupted"
        why = ""
        try:
            replies = await self._pool.ask(self._packet(batch))
            for call, reply in zip(batch, replies[2:-1], strict=True):
                call.reply = reply
        except OutcomeUnknown as error:
            why = str(error)
        except FencelockError:
            pass  # all of it was undone: each asks again, and gets an answer of its own
        for call in batch:
            call.unknown = why

    def _packet(self, batch: list[_Call]) -> str:
        names = ",".join(text(name) for name in {call.name for call in batch})
        statements = ";".join([call.sql for call in batch])
        return f"START TRANSACTION;{self._lock_all % names} FOR UPDATE NOWAIT;{statements};COMMIT"
