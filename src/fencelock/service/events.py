"""The stream of events: what happens to locks, sent to the clients that read it.

One poller for each node reads from the engine who holds what, so that the locks of all users of the
store are seen, not only those of this service. It runs while there is a reader, and ``LINGER_S``
longer, so that a reader that reconnects goes on where it was. Then everything is forgotten.

A reader has a bounded backlog. One that does not read is dropped; it may reconnect with the id of
the last event that it has. No event has an id of a lease: with it, a reader could release the lock.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from ..errors import FencelockError, Unsupported
from ..model import Holding, State, Waiting
from ..world import sleep
from .access import Identity
from .call import Call
from .messages import Event, Queue, Waiter, holder_of
from .node import CALL_S, Auditor, Node
from .problems import Problem
from .scan_diff import Change, Known, Look, differences, look, same_queue

POLL_S = 1.0
SHARE = 9.0  # the poller rests so many times as long as a look took: it uses a tenth of its time
LINGER_S = 15.0
HEARTBEAT_S = 10.0
READERS_MAX = 64
RING_MAX = 10_000  # events that are kept for readers that reconnect
BACKLOG_MAX = 20_000  # events that wait for one reader
QUEUES_MAX = 64  # queues that are looked at each time
ROTATED_MIN = 16  # of them, those of names without known waiters
WAITERS_MAX = 100  # of one queue that are sent, with the number of all
PART_MAX = 500  # locks of one part of a snapshot, and events that are sent at once
AT_ONCE = 16
TOLD = {"forbidden", "id-spent", "quota", "unsupported-safety", "unauthorized"}
"""Refusals that are sent as events: a busy lock is not one of them."""

LAST = re.compile(r"([0-9a-f]{8})-([0-9]{1,15})")
_encode = msgspec.json.Encoder().encode


class _Item(NamedTuple):
    """One event of the ring."""

    number: int
    at: float
    name: str | None
    """Readers that may observe this name get the event; if it is None, those that may all."""
    event: Event


class _Reader:
    """A client that reads the stream, and the events that wait for it."""

    def __init__(self, call: Call, prefix: str, queue: str | None) -> None:
        self.call = call
        self.prefix = prefix
        self.queue = queue
        self.items: deque[_Item] = deque()
        self.dropped = False
        self.blind = False
        """The engine had not answered when this reader connected: it has no snapshot yet."""

    @property
    def identity(self) -> Identity:
        return self.call.identity

    def sees(self, name: str | None) -> bool:
        if name is None:
            return not self.prefix and self.identity.may("observe", "")
        return name.startswith(self.prefix) and self.identity.may("observe", name)

    def push(self, item: _Item) -> None:
        if self.dropped or not (item.event.kind == "engine" or self.sees(item.name)):
            return
        if len(self.items) >= BACKLOG_MAX:
            self.drop()
            return
        self.items.append(item)
        self.call.wake.set()

    def drop(self) -> None:
        """End this stream; the events that wait for it are discarded."""
        self.dropped = True
        self.items.clear()
        self.call.wake.set()


class Events:
    """The poller of a node, and its readers."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._readers: set[_Reader] = set()
        self._wake = node.world.signal()
        self._running = False
        self._wanted_until = 0.0
        self._begun = self._ended = 0
        """How many looks at the engine have begun, and have ended."""
        self._looked = node.world.signal()
        """Set at the end of each look and of the poller, and replaced by a new signal then."""
        self._refused: Problem | None = None
        self._forget()

    def _forget(self) -> None:
        """Forget everything; events get ids then that no reader has."""
        self._epoch = self._node.world.owner()[:8]
        self._number = 0
        self._ring: deque[_Item] = deque(maxlen=RING_MAX)
        self._last: Look | None = None
        self._queues: dict[str, tuple[float, tuple[Waiting, ...]]] = {}
        self._rotation: Iterator[str] = iter(())
        self._known = self._known_before = Known(set(), {})
        self._away_since: float | None = None

    def __len__(self) -> int:
        return len(self._readers)

    # Readers.

    async def open(
        self, call: Call, prefix: str, queue: str | None, last: str
    ) -> AsyncGenerator[bytes, None]:
        """Open a stream: what was missed since the last event, or a snapshot, and what follows."""
        if len(self._readers) >= READERS_MAX:
            raise Problem("overloaded", "Too many read the events", retry_in=5.0)
        if not self._node.engine.traits.scan:
            raise Problem("unsupported", "This engine cannot list its locks")
        self._want()
        await self._fresh_look()
        if self._refused is not None:
            raise self._refused
        return self._read(_Reader(call, prefix, queue), last)

    def _want(self) -> None:
        self._wanted_until = self._node.world.now() + LINGER_S
        self._wake.set()
        if not self._running:
            self._running = True
            self._node.world.spawn(self._run(), "fencelock-events")

    async def _fresh_look(self) -> None:
        """Wait for a look that begins after now: a snapshot shows all that was done before."""
        world = self._node.world
        wanted, deadline = self._begun + 1, world.now() + CALL_S
        while self._running and self._ended < wanted and world.now() < deadline:
            await world.wait(self._looked, deadline)

    async def _read(self, reader: _Reader, last: str) -> AsyncGenerator[bytes, None]:
        node, call = self._node, reader.call
        missed = self._missed(reader, last)
        reader.items.extend(missed or ())
        self._readers.add(reader)
        try:
            yield b"retry: 1000\n\n"
            if missed is None:
                for part in self._snapshot(reader):
                    yield part
            while not (call.gone or node.draining or reader.dropped):
                call.wake.clear()
                if reader.blind and self._last is not None:
                    for part in self._snapshot(reader):
                        yield part
                elif reader.items:
                    yield self._sent(reader)
                elif not await node.world.wait(call.wake, node.world.now() + HEARTBEAT_S):
                    yield b": still here\n\n"
        finally:
            self._readers.discard(reader)
            self._wanted_until = node.world.now() + LINGER_S

    def _missed(self, reader: _Reader, last: str) -> list[_Item] | None:
        """Return the events since the last one that a reader has; None if some are not kept."""
        found = LAST.fullmatch(last)
        if found is None or found[1] != self._epoch or self._last is None:
            return None
        number = int(found[2])
        first = self._ring[0].number if self._ring else self._number + 1
        if not first - 1 <= number <= self._number:
            return None
        return [
            item
            for item in self._ring
            if item.number > number and (item.event.kind == "engine" or reader.sees(item.name))
        ]

    def _snapshot(self, reader: _Reader) -> Iterator[bytes]:
        """Encode the present state in parts; only the last has an id, to reconnect with."""
        reader.blind = self._last is None
        reader.items.clear()
        last = self._last or look(self._node.world.now(), ())
        queues = [(name, *found) for name, found in self._queues.items() if found[1]]
        number, away_since = self._number, self._away_since

        def parts() -> Iterator[bytes]:
            seen = (one for one in last.locks.values() if reader.sees(one.name))
            told = [(name, at, waiters) for name, at, waiters in queues if reader.sees(name)]
            locks = [*islice(seen, PART_MAX)]
            while True:
                after = [*islice(seen, PART_MAX)]
                now = self._node.world.now()
                event = _event(
                    kind="snapshot", locks=[holder_of(one) for one in locks], more=bool(after)
                )
                if not after:
                    event.queues = [_queue(name, last.at - at, w) for name, at, w in told]
                    event.up = away_since is None and not reader.blind
                    event.away = None if away_since is None else now - away_since
                event.ago = now - last.at
                yield _written(event, None if after else f"{self._epoch}-{number}")
                if not after:
                    return
                locks = after

        return parts()

    def _sent(self, reader: _Reader) -> bytes:
        now, pieces = self._node.world.now(), list[bytes]()
        while reader.items and len(pieces) < PART_MAX:
            number, at, _, event = reader.items.popleft()
            event.ago = now - at
            pieces.append(_written(event, f"{self._epoch}-{number}"))
        return b"".join(pieces)

    def end_all(self) -> None:
        """End all streams: rights have changed, or the node drains."""
        for reader in self._readers:
            reader.drop()
        self._wake.set()

    # The poller.

    async def _run(self) -> None:
        node, self._refused = self._node, None
        try:
            while not node.draining and (self._readers or node.world.now() < self._wanted_until):
                began = node.world.now()
                self._wake.clear()
                self._begun += 1
                await self._look()
                self._tell_looked()
                if self._refused is not None:
                    return
                await sleep(node.world, SHARE * (node.world.now() - began))
                await node.world.wait(self._wake, began + POLL_S)
        finally:
            self._running = False
            self._tell_looked()
            for reader in self._readers:
                reader.drop()
            self._forget()

    def _tell_looked(self) -> None:
        self._ended = self._begun
        looked, self._looked = self._looked, self._node.world.signal()
        looked.set()

    async def _look(self) -> None:
        """Read all holders and some queues from the engine; send what has changed."""
        node = self._node
        try:
            holdings = await node.call_engine(node.engine.scan, "")
        except Unsupported:
            self._refused = Problem("unsupported", "This engine cannot list its locks")
            return
        except Problem as problem:
            if problem.kind != "overloaded":  # then the node is busy, not the engine away
                self._away()
            return
        except FencelockError:
            self._away()
            return
        after = look(node.world.now(), holdings)
        self._back()
        granted = self._compare(after)
        await self._look_at_queues([*dict.fromkeys(one.name for one in holdings)], granted)

    def _compare(self, after: Look) -> list[str]:
        """Send what has changed since the last look; return the names that were granted."""
        before, self._last = self._last, after
        older, known = self._known_before, self._known  # a call may end during a look
        self._known_before, self._known = known, Known(set(), {})
        if before is None:
            for reader in self._readers:
                reader.call.wake.set()
            return []
        known = Known(older.released | known.released, older.revoked | known.revoked)
        granted: list[str] = []
        for change in differences(before, after, known):
            self._tell(change.lock.name, _changed(change), after.at)
            if change.kind == "granted":
                granted.append(change.lock.name)
        return granted

    async def _look_at_queues(self, held: Sequence[str], granted: Sequence[str]) -> None:
        """Look at some queues: those requested, waited in or just granted, and others by turns."""
        node = self._node
        names = self._next_queues(held, granted)
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            thunks = [partial(self._inspect, name) for name in some]
            answers = await node.world.gather(thunks, node.world.now() + CALL_S)
            for answer in answers:
                if isinstance(answer, State):
                    self._update_queue(answer)

    async def _inspect(self, name: str) -> State:
        return await self._node.call_engine(self._node.engine.inspect, name)

    def _next_queues(self, held: Sequence[str], granted: Sequence[str]) -> list[str]:
        asked = [one.queue for one in self._readers if one.queue is not None]
        waited = [name for name, (_, waiters) in self._queues.items() if waiters]
        urgent = [*islice(dict.fromkeys(chain(asked, waited, granted)), QUEUES_MAX - ROTATED_MIN)]
        for name in urgent:  # to the end, so that all come to their turn
            if name in self._queues:
                self._queues[name] = self._queues.pop(name)
        chosen, present = dict.fromkeys(urgent), set(held)
        for _ in range(min(QUEUES_MAX - len(urgent), len(held) + 1)):
            rotated = next(self._rotation, None)
            if rotated is None:
                self._rotation = iter(held)
            elif rotated in present:
                chosen[rotated] = None
        return [*chosen]

    def _update_queue(self, state: State) -> None:
        now = self._node.world.now()
        at, before = self._queues.get(state.name, (now, ()))
        if not state.waiters:
            self._queues.pop(state.name, None)
        else:
            self._queues[state.name] = (now, state.waiters)
        if not same_queue(before, state.waiters, now - at):
            told = _queue(state.name, 0.0, state.waiters)
            event = _event(
                kind="waiting", name=told.name, waiting=told.waiting, waiters=told.waiters
            )
            self._tell(state.name, event, now)

    def _away(self) -> None:
        if self._away_since is None:
            self._away_since = self._node.world.now()
            self._tell(None, _event(kind="engine", up=False), self._away_since)

    def _back(self) -> None:
        if self._away_since is not None:
            now = self._node.world.now()
            event = _event(kind="engine", up=True, away=now - self._away_since)
            self._away_since = None
            self._tell(None, event, now)

    def _tell(self, name: str | None, event: Event, at: float) -> None:
        self._number += 1
        item = _Item(self._number, at, name, event)
        self._ring.append(item)
        for reader in self._readers:
            reader.push(item)

    # What calls of this node did.

    def publish(self, what: str, identity: str, facts: Mapping[str, object]) -> None:
        """Send what a call of this node did, where the engine does not show it."""
        if not self._running:
            return
        name = facts.get("name")
        text = name if isinstance(name, str) else None
        now = self._node.world.now()
        if what == "released" and facts["released"]:
            self._known.released.add((str(name), int(str(facts["fence"]))))
        elif what == "released" and not facts["again"]:
            self._tell(
                text, _event(kind="refused", name=text, problem="not-held", by=identity), now
            )
        elif what == "revoked" and facts["revoked"]:
            self._known.revoked[str(name)] = (str(facts["reason"]), identity)
            self._wake.set()
        elif what == "lost":
            loss, reason = str(facts["loss"]), str(facts["reason"])
            self._tell(
                text, _event(kind="lost", name=text, loss=loss, reason=reason, by=identity), now
            )
        elif what == "refused" and facts["problem"] in TOLD:
            problem = str(facts["problem"])
            self._tell(text, _event(kind="refused", name=text, problem=problem, by=identity), now)


class PublishingAudit:
    """An audit whose entries are passed on to the events, too."""

    def __init__(self, auditor: Auditor) -> None:
        self.auditor = auditor
        self.events: Events | None = None

    @property
    def writable(self) -> bool:
        return self.auditor.writable

    def write(self, event: str, identity: str, peer: str, facts: Mapping[str, object]) -> None:
        self.auditor.write(event, identity, peer, facts)
        if self.events is not None:
            self.events.publish(event, identity, facts)


_event = partial(Event, schema=1, ago=0.0)


def _changed(change: Change) -> Event:
    lock: Holding = change.lock
    if change.kind == "renewed":
        lock = lock._replace(meta={})  # readers know it, and renewals are many
    return _event(kind=change.kind, lock=holder_of(lock), reason=change.reason, by=change.by)


def _queue(name: str, elapsed: float, waiters: Sequence[Waiting]) -> Queue:
    told = [Waiter(w.age + elapsed, dict(w.meta), w.role) for w in waiters[:WAITERS_MAX]]
    return Queue(name, len(waiters), told)


def _written(event: Event, number: str | None) -> bytes:
    """Encode an event as one of Server-Sent Events; JSON has no line breaks."""
    head = f"event: {event.kind}\n" + (f"id: {number}\n" if number else "")
    return head.encode() + b"data: " + _encode(event) + b"\n\n"
