"""Tells the waiters of one client that the contender before them has gone.

One stream serves all waiters. A watch says at which revision it began; if the store has moved on
since the queue was read, the waiter is told to look again, so nothing falls between looking and
watching. (A watch can also begin in the past, but those etcd serves only ten times a second.)
Whatever ends a watch other than the deletion it waits for (the stream broke, its member lost the
leader) is told to the waiter as well: a push means "look again".
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from ...world import World
from . import codec
from .link import Link, Refused, Stream
from .session import Place

QUIET_S = 1.0  # after a stream that broke, waiters look by themselves for so long


class _Watch(NamedTuple):
    place: Place
    key: bytes
    revision: int
    """At which the queue was read."""


class Watcher:
    """The watches of one client."""

    def __init__(self, world: World, link: Link) -> None:
        self._world = world
        self._link = link
        self._mutex = world.mutex()
        self._numbers = count(1)
        self._watching: dict[int, _Watch] = {}
        self._stream: Stream | None = None
        self._turn = 0
        self._epoch = 0
        self._quiet_until = 0.0
        self._closed = False

    def arm(self, place: Place, key: bytes, revision: int) -> bool:
        """Call the place when the key is deleted after a revision; False without a stream."""
        with self._mutex:
            if place.watch in self._watching and self._watching[place.watch].key == key:
                self._watching[place.watch] = _Watch(place, key, revision)
                return True  # it has been watched all the time
        self.disarm(place)
        with self._mutex:
            stream = self._open()
            if stream is None:
                return False
            place.watch = number = next(self._numbers)
            self._watching[number] = _Watch(place, key, revision)
            stream.send(codec.watch_deletion(number, key))
        return True

    def disarm(self, place: Place) -> None:
        """Watch for it no more."""
        number, place.watch = place.watch, 0
        if number:
            with self._mutex:
                if self._watching.pop(number, None) is not None and self._stream is not None:
                    self._stream.send(codec.watch_no_more(number))

    def look(self) -> None:
        """Leave a member that others have turned away from: it may hang and never say so."""
        with self._mutex:
            left = self._stream is not None and self._turn != self._link.turn
        if left:
            self._break(self._epoch)

    def close(self) -> None:
        self._closed = True
        self._break(self._epoch)

    def _open(self) -> Stream | None:
        if self._stream is None and not self._closed and self._world.now() >= self._quiet_until:
            self._epoch += 1
            epoch, self._turn = self._epoch, self._link.turn
            try:
                self._stream = self._link.stream(
                    lambda data: self._hear(epoch, data), lambda: self._broke(epoch)
                )
            except Refused:
                return None
        return self._stream

    def _hear(self, epoch: int, data: bytes) -> None:
        try:
            news = codec.read_news(data)
        except codec.Malformed:
            self._break(epoch)
            return
        with self._mutex:
            watch = self._watching.get(news.watch) if epoch == self._epoch else None
            over = watch is not None and (news.ended or bool(news.deleted))
            if over:
                del self._watching[news.watch]
                if self._stream is not None and not news.ended:
                    self._stream.send(codec.watch_no_more(news.watch))
        if watch is not None and over:
            watch.place.watch = 0
            watch.place.call(self._world.now())
        elif watch is not None and news.created and news.revision > watch.revision:
            watch.place.call(self._world.now())  # what happened in between was not told

    def _broke(self, epoch: int) -> None:
        """The stream ended by itself: its member is in trouble."""
        if epoch == self._epoch and not self._closed:
            self._link.turn_from(self._turn)
            self._quiet_until = self._world.now() + QUIET_S
        self._break(epoch)

    def _break(self, epoch: int) -> None:
        with self._mutex:
            if epoch != self._epoch:
                return
            self._epoch += 1  # what the old stream still says is not heard
            stream, self._stream = self._stream, None
            left, self._watching = self._watching, {}
        if stream is not None:
            stream.close()
        for watch in left.values():
            watch.place.watch = 0
            watch.place.call(self._world.now())
