"""Wake the waiters of one client when the key of the contender before them is deleted.

One stream serves all waiters. A watch reports the revision at which it was created; if the store
has changed since the queue was read, the waiter is woken to read the queue again, so no event is
lost between the read and the watch. A watch can also start at a past revision, but etcd serves
those only ten times a second: they are for waiters far back in a long queue, where many join at
once and would all read it again and again. Whatever ends a watch other than the deletion it waits
for (the stream broke, its member lost the leader) wakes the waiter as well: a push means "look
again".

Contenders that come back, as workers on one lock do, queue in the same order again, with the same
keys. So a watch that has fired is kept for a while as a spare: the next waiter for that key need
not create one, and has missed nothing meanwhile.

Observers are not waiters: their watches, over ranges, stay until they are cancelled, and are
created again after the stream broke.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ...wires.grpc.status import RpcError
from ...world import Signal, World
from .cluster import Cluster, Stream
from .messages import protobuf, replies, requests
from .own_key import OwnKey

QUIET_S = 1.0  # after the stream broke, waiters poll for so long
SPARE_S, SPARES_MAX = 5.0, 64


class Observer:
    """A signal that is set on every change in a range, until it is unobserved."""

    __slots__ = ("end", "signal", "start", "watch_id")

    def __init__(self, signal: Signal, start: bytes, end: bytes) -> None:
        self.signal = signal
        self.start, self.end = start, end
        self.watch_id = 0

    def concerned(self, keys: Sequence[bytes]) -> bool:
        """Return whether one of these keys is of the name itself, not of a name below it."""
        below = self.start.endswith(b"/")
        return not below or any(b"/" not in key[len(self.start) :] for key in keys)

    def wake(self, now: float) -> None:
        self.signal.set()


class _Watch:
    """The watch of one key or one range, and the waiter or observer it is for."""

    __slots__ = ("deleted", "key", "number", "own", "past", "revision", "spare_until")

    def __init__(
        self, number: int, key: bytes, own: OwnKey | Observer, revision: int, past: bool
    ) -> None:
        self.number = number
        self.key = key
        self.own: OwnKey | Observer | None = own
        """The waiter or observer; None while the watch is a spare."""
        self.revision = revision
        """The revision at which the queue was read."""
        self.past = past
        """Whether it starts at that revision, not at the present one."""
        self.deleted = 0
        """The revision of the store when the key was last reported deleted."""
        self.spare_until = 0.0


class Watches:
    """The watches of one client."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._mutex = world.mutex()
        self._numbers = count(1)
        self._watching: dict[int, _Watch] = {}
        self._spares: dict[bytes, _Watch] = {}
        self._observers: dict[tuple[str, Signal], list[Observer]] = {}
        self._stream: Stream | None = None
        self._epoch = 0
        """The cluster's epoch when the stream was opened."""
        self._generation = 0
        """Counts the streams, so that late messages of an old one are ignored."""
        self._quiet_until = 0.0
        self._closed = False

    def arm(
        self,
        own: OwnKey,
        key: bytes,
        revision: int,
        past: bool = False,
        end: bytes = b"",
        puts: bool = False,
    ) -> bool:
        """Wake the waiter of ``own`` when ``key``, or one up to ``end``, is deleted after a
        revision; return False if there is no stream.

        ``past``: the watch starts at that revision, which is slower but needs no further read.
        ``puts``: a put wakes it, too. All waiters for a key use the same options, so that a spare
        serves any of them.
        """
        with self._mutex:
            watch = self._watching.get(own.watch_id)
            if watch is not None and watch.key == key:
                watch.revision = revision
                return True  # it has been watched all the time
        self.disarm(own)
        with self._mutex:
            stream = self._open()
            if stream is None:
                return False
            watch = self._spares.pop(key, None)
            if watch is None:
                watch = _Watch(next(self._numbers), key, own, revision, past)
                self._watching[watch.number] = watch
                since = revision + 1 if past else 0
                if end or puts:
                    stream.send(requests.watch_range(watch.number, key, end, since, puts))
                else:
                    stream.send(requests.watch_deletion(watch.number, key, since))
            watch.own, watch.revision, own.watch_id = own, revision, watch.number
            missed = watch.deleted > revision
        if missed:  # it was deleted before this watch was armed
            own.wake(self._world.now())
        return True

    def disarm(self, own: OwnKey) -> None:
        """Cancel the watch of the waiter of our key."""
        number, own.watch_id = own.watch_id, 0
        if number:
            with self._mutex:
                if number in self._watching:
                    self._end(self._watching[number])

    def observe(
        self, name: str, signal: Signal, ranges: Sequence[tuple[bytes, bytes]], revision: int
    ) -> None:
        """Set a signal whenever something has changed in the ranges of a name after a revision."""
        with self._mutex:
            for bounds in ranges:
                observer = Observer(signal, *bounds)
                self._observers.setdefault((name, signal), []).append(observer)
                self._begin(observer, revision)

    def unobserve(self, name: str, signal: Signal) -> None:
        with self._mutex:
            for observer in self._observers.pop((name, signal), []):
                if observer.watch_id in self._watching:
                    self._end(self._watching[observer.watch_id])

    def observed(self) -> bool:
        return bool(self._observers)

    def _begin(self, observer: Observer, revision: int | None = None) -> None:
        """Create the watch of an observer, from a revision on, or from now on: then the observer is
        woken once the watch is created. The caller has the mutex. Without a stream the next
        ``look`` tries again."""
        stream = self._open()
        if stream is not None:
            past, since = revision is not None, 0 if revision is None else revision + 1
            number = observer.watch_id = next(self._numbers)
            self._watching[number] = _Watch(number, observer.start, observer, -1, past)
            stream.send(requests.watch_range(number, observer.start, observer.end, since, True))

    def look(self) -> None:
        """Cancel old spares, close a stream to a member that was switched from, and create the
        missing watches of observers.

        Such a member may hang without ever breaking the stream.
        """
        now = self._world.now()
        with self._mutex:
            for spare in [one for one in self._spares.values() if one.spare_until <= now]:
                self._end(spare)
            left = self._stream is not None and (self._closed or self._epoch != self._cluster.epoch)
        if left:
            self._break(self._generation)
        with self._mutex:
            for observer in [one for some in self._observers.values() for one in some]:
                if not observer.watch_id:
                    self._begin(observer)

    def close_nowait(self) -> None:
        """Create no more watches; the stream is closed by the next ``look``."""
        self._closed = True

    def close(self) -> None:
        self._closed = True
        self._break(self._generation)

    def _open(self) -> Stream | None:
        if self._stream is None and not self._closed and self._world.now() >= self._quiet_until:
            self._generation += 1
            generation, self._epoch = self._generation, self._cluster.epoch
            try:
                self._stream = self._cluster.stream(
                    lambda data: self._received(generation, data), lambda: self._broke(generation)
                )
            except RpcError:
                return None
        return self._stream

    def _received(self, generation: int, data: bytes) -> None:
        try:
            reply = replies.read_watch(data)
        except protobuf.Malformed:
            self._break(generation)
            return
        with self._mutex:
            watch = self._watching.get(reply.watch) if generation == self._generation else None
            if watch is None:
                return
            own, over = watch.own, reply.ended or bool(reply.changed)
            if reply.ended:
                self._end(watch, by_server=True)
            elif reply.changed and isinstance(own, Observer):
                over = False
                if not own.concerned(reply.changed):
                    return
            elif reply.changed:
                self._spare(watch, reply.revision)
            elif not reply.created or watch.past or reply.revision <= watch.revision:
                return  # else the store has changed since: this watch does not report that
            if own is not None and over:
                own.watch_id = 0
        if own is not None:
            own.wake(self._world.now())

    def _spare(self, watch: _Watch, revision: int) -> None:
        """Keep a watch that has fired as a spare, unless nobody waited for it. Under the mutex."""
        old = self._spares.get(watch.key)
        if watch.own is None or len(self._spares) >= SPARES_MAX or old is not None:
            self._end(watch)
            return
        watch.own, watch.deleted = None, revision
        watch.spare_until = self._world.now() + SPARE_S
        self._spares[watch.key] = watch

    def _end(self, watch: _Watch, by_server: bool = False) -> None:
        """Cancel a watch, at the server too unless the server has cancelled it."""
        del self._watching[watch.number]
        if self._spares.get(watch.key) is watch:
            del self._spares[watch.key]
        if self._stream is not None and not by_server:
            self._stream.send(requests.watch_no_more(watch.number))

    def _broke(self, generation: int) -> None:
        """Switch from the member of a stream that ended by itself."""
        if generation == self._generation and not self._closed:
            self._cluster.switch_from(self._epoch)
            self._quiet_until = self._world.now() + QUIET_S
        self._break(generation)

    def _break(self, generation: int) -> None:
        with self._mutex:
            if generation != self._generation:
                return
            self._generation += 1  # what the old stream still sends is dropped
            stream, self._stream = self._stream, None
            left, self._watching, self._spares = self._watching, {}, {}
        if stream is not None:
            stream.close()
        for watch in left.values():
            if watch.own is not None:
                watch.own.watch_id = 0
                watch.own.wake(self._world.now())
