"""The links of one client: few, used again, and lent to one caller at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from ...errors import Unavailable
from ...world import Signal, World
from .codec import Reply, ServerError
from .faults import DEADLOCK, refused
from .link import Link
from .settings import Settings

FRESH_S = 1.0  # a link that was used so lately is not looked at before it is used again
TRIES = 10  # for statements that met others in a deadlock

Dial = Callable[[], Awaitable[Link]]


class Pool:
    """At most so many links; who comes when all are lent waits."""

    def __init__(self, world: World, dial: Dial, settings: Settings, size: int) -> None:
        self._world = world
        self._dial = dial
        self._settings = settings
        self._free: deque[tuple[Link, float]] = deque()
        self._room = size
        self._mutex = world.mutex()
        self._queue: deque[Signal] = deque()
        self._closed = False

    async def ask(self, sql: str, rings: bool = False) -> list[Reply]:
        """Have statements run on any link.

        A statement that met others in a deadlock was undone by the server, and is tried again. A
        packet that ``rings`` ends with waking another client, which may have died meanwhile.
        """
        for attempt in range(1, TRIES + 1):
            link = await self.lend()
            try:
                replies = await link.ask(sql, self._settings.patience)
                return replies[:-1] if rings else replies
            except Unavailable:  # it had ended in the pool, and nothing was sent
                if attempt == TRIES or self._closed:
                    raise
            except ServerError as error:
                if rings and len(error.replies) == sql.count(";"):  # no literal has one
                    return error.replies
                await self._roll_back(link, sql)
                if error.code != DEADLOCK or attempt == TRIES:
                    raise refused(error, self._settings.where) from error
            finally:
                self.give_back(link)
        raise AssertionError("unreachable")

    async def _roll_back(self, link: Link, sql: str) -> None:
        """After an error a transaction may still be open, and its rows locked."""
        if "START TRANSACTION" in sql:
            await link.ask("ROLLBACK", self._settings.patience)

    async def lend(self) -> Link:
        """A link that works, as far as can be seen without asking."""
        give_up = 0.0
        while True:
            try:
                link, used_at = self._free.pop()  # the last one used: the others may fall asleep
            except IndexError:
                signal = self._stand()
                if signal is None:
                    return await self._grow()
                give_up = give_up or self._world.now() + self._settings.patience
                await self._wait(signal, give_up)
                continue
            fresh = self._world.now() - used_at < FRESH_S
            if not (link.is_over if fresh else link.has_ended()):
                return link
            self._forget(link)

    def _stand(self) -> Signal | None:
        """Take the room for a new link (None), or a place in the queue for one that comes back."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed")
            if self._room > 0:
                self._room -= 1
                return None
            signal = self._world.signal()
            if self._free:
                signal.set()
            else:
                self._queue.append(signal)
            return signal

    async def _wait(self, signal: Signal, give_up: float) -> None:
        called = False
        try:
            called = await self._world.wait(signal, give_up)
        finally:
            if not called:
                with self._mutex:
                    if signal in self._queue:
                        self._queue.remove(signal)
                        signal.clear()
                if signal.is_set():  # called just now: let another go
                    self._call()
        if not called:
            raise Unavailable(
                f"all connections to {self._settings.where} were in use for "
                f"{self._settings.patience:g} s; nothing happened. Allow more with pool="
            )

    async def _grow(self) -> Link:
        try:
            return await self._dial()
        except BaseException:
            self._make_room()
            raise

    def give_back(self, link: Link) -> None:
        """Have a link back; one that failed is forgotten."""
        if link.is_over or self._closed:
            self._forget(link)
            return
        with self._mutex:
            self._free.append((link, self._world.now()))
        if self._queue:
            self._call()

    def _forget(self, link: Link) -> None:
        link.close()
        self._make_room()

    def _make_room(self) -> None:
        with self._mutex:
            self._room += 1
        self._call()

    def _call(self) -> None:
        try:
            self._queue.popleft().set()
        except IndexError:
            pass

    def close(self) -> None:
        """Close all links, those that are lent as soon as they come back."""
        with self._mutex:
            self._closed = True
        while self._free:
            self._free.pop()[0].close()
        while self._queue:
            self._call()
