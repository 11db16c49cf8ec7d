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


class _Place:
    """A place in the line for a link."""

    def __init__(self, link: tuple[Link, float] | None = None) -> None:
        self.link = link
        """What it was given, and when that was last used."""
        self.signal: Signal | None = None

    def call(self) -> None:
        if self.signal is not None:
            self.signal.set()


class Pool:
    """At most so many links; who comes when all are lent waits."""

    def __init__(self, world: World, dial: Dial, settings: Settings, size: int) -> None:
        self._world = world
        self._dial = dial
        self._settings = settings
        self._free: deque[tuple[Link, float]] = deque()
        self._room = size
        self._mutex = world.mutex()
        self._queue: deque[_Place] = deque()
        self._closed = False

    async def ask(self, sql: str, rings: bool = False) -> list[Reply]:
        """Have statements run on any link.

        A statement that met others in a deadlock was undone by the server, and is tried again. A
        packet that ``rings`` ends with waking another client, which may have died meanwhile.
        """
        for attempt in range(1, TRIES + 1):
            link = self._at_hand() or await self.lend()
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

    def _at_hand(self) -> Link | None:
        """A link that was used just now: the same as lending one, without the ways around it."""
        with self._mutex:
            if not self._free:
                return None
            link, used_at = self._free[-1]
            if link.is_over or self._world.now() - used_at >= FRESH_S:
                return None
            self._free.pop()
            return link

    async def lend(self) -> Link:
        """A link that works, as far as can be seen without asking."""
        give_up = 0.0
        while True:
            place = self._stand()
            if place is None:
                return await self._grow()
            if place.link is None:
                give_up = give_up or self._world.now() + self._settings.patience
                await self._wait(place, give_up)
            if place.link is None:
                continue  # there is room for a new one
            link, used_at = place.link
            fresh = self._world.now() - used_at < FRESH_S
            if not (link.is_over if fresh else link.has_ended()):
                return link
            self._forget(link)

    def _stand(self) -> _Place | None:
        """Get a link, or take the room for a new one (None), or stand in line for either."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed")
            if self._free:  # the last one used: the others may fall asleep
                return _Place(self._free.pop())
            if self._room > 0:
                self._room -= 1
                return None
            place = _Place()
            place.signal = self._world.signal()
            self._queue.append(place)
            return place

    async def _wait(self, place: _Place, give_up: float) -> None:
        assert place.signal is not None
        called = False
        try:
            called = await self._world.wait(place.signal, give_up)
        finally:
            if not called and not self._leave(place):  # called just now
                if place.link is None:
                    self._call()
                else:
                    self.give_back(place.link[0])
                place.link = None
        if not called:
            raise Unavailable(
                f"all connections to {self._settings.where} were in use for "
                f"{self._settings.patience:g} s; nothing happened. Allow more with pool="
            )

    def _leave(self, place: _Place) -> bool:
        """Out of the line; False when it was called before."""
        with self._mutex:
            if place in self._queue:
                self._queue.remove(place)
                return True
            return False

    async def _grow(self) -> Link:
        try:
            return await self._dial()
        except BaseException:
            self._make_room()
            raise

    def give_back(self, link: Link) -> None:
        """Have a link back; one that failed is forgotten.

        It goes to whoever has waited longest. If it lay there for anybody, a caller that asks again
        at once would always be first, and those who wait would starve.
        """
        if link.is_over or self._closed:
            self._forget(link)
            return
        with self._mutex:
            back = (link, self._world.now())
            if not self._queue:
                self._free.append(back)
                return
            place = self._queue.popleft()
            place.link = back
        place.call()

    def _forget(self, link: Link) -> None:
        link.close()
        self._make_room()

    def _make_room(self) -> None:
        with self._mutex:
            self._room += 1
        self._call()

    def _call(self) -> None:
        """There is room: let the first in line see."""
        with self._mutex:
            place = self._queue.popleft() if self._queue else None
        if place is not None:
            place.call()

    def close(self) -> None:
        """Close all links, those that are lent as soon as they come back."""
        with self._mutex:
            self._closed = True
        while self._free:
            self._free.pop()[0].close()
        while self._queue:
            self._call()
