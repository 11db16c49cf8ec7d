"""The links of one client: few, used again, and lent to one caller at a time.

An exception of a signal handler may end a caller between any two steps. So room is not counted up
and down: a link, or the right to connect one, takes room for as long as somebody knows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from weakref import WeakSet

from ....errors import OutcomeUnknown, Unavailable
from ....world import Signal, World, sleep
from ..errors import DEADLOCK, refused
from ..settings import Settings
from .codec import Reply, ServerError
from .connection import Link

FRESH_S = 1.0  # a link that was used so lately is not looked at before it is used again
TRIES = 10  # for statements that met others in a deadlock
LOOK_S = 0.1  # how often who waits for a link looks whether one was lost
END_S = 1.0  # how long the server may take to end a session that was given up
ENDING_S = 0.01

Dial = Callable[[], Awaitable[Link]]


class _Room:
    """The right to connect one link."""


class _Place:
    """A place in the line for a link."""

    def __init__(self, link: tuple[Link, float] | None = None, room: _Room | None = None) -> None:
        self.link = link
        """What it was given, and when that was last used."""
        self.room = room
        self.signal: Signal | None = None

    def call(self) -> None:
        if self.signal is not None:
            self.signal.set()


class Pool:
    """At most so many links; who comes when all are lent waits."""

    def __init__(
        self, world: World, dial: Dial, settings: Settings, size: int, orderly: bool = False
    ) -> None:
        """In an ``orderly`` pool no question overtakes one whose caller has given up."""
        self._world = world
        self._dial = dial
        self._settings = settings
        self._size = size
        self._orderly = orderly
        self._free: deque[tuple[Link, float]] = deque()
        self._taken: WeakSet[object] = WeakSet()
        """All links, and rooms for links."""
        self._doubts: set[str] = set()
        """Sessions whose last question may still be served, though nobody waits for the answer."""
        self._mutex = world.mutex()
        self._queue: deque[_Place] = deque()
        self._closed = False

    async def ask(self, sql: str, rings: bool = False) -> list[Reply]:
        """Have statements run on any link.

        A statement that met others in a deadlock was undone by the server, and is tried again. A
        packet that ``rings`` ends with waking another client, which may have died meanwhile.
        """
        if self._doubts:
            await self.settle(self._doubts)
        for attempt in range(1, TRIES + 1):
            link = self._at_hand() or await self.lend()
            clean = False
            try:
                replies = await link.ask(sql, self._settings.request_timeout)
                clean = True
                return replies[:-1] if rings else replies
            except Unavailable:  # it had ended in the pool, and nothing was sent
                clean = True
                if attempt == TRIES or self._closed or self._world.limit() <= self._world.now():
                    raise
            except ServerError as error:
                if not rings or len(error.replies) != sql.count(";"):  # no literal has one
                    await self._roll_back(link, sql)
                    clean = True
                    if error.code != DEADLOCK or attempt == TRIES:
                        raise refused(error, self._settings.where) from error
                    continue
                clean = True
                return error.replies
            finally:
                self._take_back(link, clean)
        raise AssertionError("unreachable")

    def _take_back(self, link: Link, clean: bool) -> None:
        """Have a link back from a question. In asyncio a caller is interrupted only in its ask."""
        if not clean and (link.is_over or not self._world.cancels):
            if self._orderly:
                self._doubts.add(link.badge)
            self._forget(link)
        else:
            self.give_back(link)

    async def settle(self, doubts: set[str]) -> None:
        """End the sessions of which nobody knows what they still do: nothing may overtake them.

        Whoever has the badge is that session; when it is free, all that was asked of it has ended.
        """
        for badge in list(doubts):
            give_up = self._world.now() + END_S
            while not await self._has_ended(badge):
                if self._world.now() >= min(give_up, self._world.limit()):
                    raise Unavailable(
                        f"{self._settings.where} is still busy with an earlier request of this "
                        "client that was not answered; nothing more was asked. Try again"
                    )
                await sleep(self._world, ENDING_S)
            doubts.discard(badge)

    async def _has_ended(self, badge: str) -> bool:
        link, clean = self._at_hand() or await self.lend(), False
        try:
            (reply,) = await link.ask(
                f"SELECT IS_USED_LOCK({badge})", self._settings.request_timeout
            )
            if reply.rows != [(None,)]:
                await link.ask(f"KILL IS_USED_LOCK({badge})", self._settings.request_timeout)
            clean = True
            return reply.rows == [(None,)]
        except ServerError:
            clean = True
            return False  # it ends just now
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; nothing more was asked. Try again") from error
        finally:
            if clean or self._world.cancels:
                self.give_back(link)
            else:
                self._forget(link)

    async def _roll_back(self, link: Link, sql: str) -> None:
        """After an error a transaction may still be open, and its rows locked."""
        if "START TRANSACTION" in sql:
            await link.ask("ROLLBACK", self._settings.request_timeout)

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
            if place.link is None and place.room is None:
                give_up = give_up or self._world.now() + self._settings.request_timeout
                await self._wait(place, give_up)
            if place.room is not None:
                return await self._grow(place.room)
            if place.link is None:
                continue  # there is room for a new one
            link, used_at = place.link
            place.link = None
            fresh = self._world.now() - used_at < FRESH_S
            if not (link.is_over if fresh else link.has_ended()):
                return link
            self._forget(link)

    def _stand(self) -> _Place:
        """Get a link, or the room for a new one, or stand in line for either."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            if self._free:  # the last one used: the others may fall asleep
                return _Place(self._free.pop())
            if len(self._taken) < self._size:
                room = _Room()
                self._taken.add(room)
                return _Place(room=room)
            place = _Place()
            place.signal = self._world.signal()
            self._queue.append(place)
            return place

    async def _wait(self, place: _Place, give_up: float) -> None:
        assert place.signal is not None
        called = False
        try:
            while not called and len(self._taken) >= self._size and place.link is None:
                now = self._world.now()
                if now >= min(give_up, self._world.limit()):
                    raise Unavailable(
                        f"all connections to {self._settings.where} were in use for "
                        f"{self._settings.request_timeout:g} s; nothing happened. Allow more: pool="
                    )
                called = await self._world.wait(place.signal, min(give_up, now + LOOK_S))
            called = True
        finally:
            if not self._leave(place) and not called:  # called just now
                if place.link is None:
                    self._call()
                else:
                    self.give_back(place.link[0])
                place.link = None

    def _leave(self, place: _Place) -> bool:
        """Out of the line; False when it was called before."""
        with self._mutex:
            if place in self._queue:
                self._queue.remove(place)
                return True
            return False

    async def _grow(self, room: _Room) -> Link:
        try:
            link = await self._dial()
            self._taken.add(link)
            return link
        finally:
            self._taken.discard(room)
            if len(self._taken) < self._size:
                self._call()

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
        self._taken.discard(link)
        self._call()

    def _call(self) -> None:
        """Let the first in line see whether there is room."""
        if not self._queue:
            return
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
