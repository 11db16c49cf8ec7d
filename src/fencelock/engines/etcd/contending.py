"""The queue for a name: joining it, finding out whose turn it is, and leaving it.

One transaction takes a free lock, or joins the queue and reads it. Whoever stands behind another
watches that one only. After a wait the queue is read again: our key must still be there, so its
lease must be, and be the first.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from ...errors import EngineError, FencelockError, Unavailable
from ...model import Busy, Grant, Request, drift
from ...world import Signal, World
from . import codec
from .link import RANGE, TXN, LeaseGone, Link
from .naming import KEPT_MAX, Naming, Steps, meta_text, owner_of, value_of
from .session import Place, Session, Sessions
from .watcher import Watcher

LOOK_S = 60.0  # the watch tells; this is the net under it
POLL_S = 1.0  # while there is no watch


class Contending:
    """All contenders of one client."""

    def __init__(
        self, world: World, link: Link, sessions: Sessions, watcher: Watcher, naming: Naming
    ) -> None:
        self._world = world
        self._link = link
        self._sessions = sessions
        self._watcher = watcher
        self._naming = naming
        self._keys: dict[bytes, Place] = {}
        self._signals: dict[str, Signal] = {}
        self.places: dict[str, Place] = {}
        """By owner."""
        sessions.reaped = self.forget

    def acquire(self, request: Request) -> Coroutine[Any, Any, Grant | Busy]:
        place = self.places.get(request.owner)
        if place is None or place.session.ended or not place.created:
            return self._join(request, request.queue or request.waits)
        return self._look(request, place)

    async def _join(self, request: Request, queues: bool) -> Grant | Busy:
        """Take the lock if nobody has it or wants it; else join the queue, where that is wished."""
        sessions, asked_at = self._sessions, self._world.now()
        session = sessions.found(request.ttl, asked_at) or await sessions.fresh(request.ttl)
        place = self._place(request, session)
        place.until = asked_at + session.ttl
        steps = place.steps or self._naming.steps(request.name, place.key, session.lease)
        place.unanswered += 1  # until the answer, whatever ends this call, it may take effect
        try:
            answer = await self._link.call(TXN, steps.join(place.value, queues))
        except LeaseGone:
            self.forget(place, certain=True)
            sessions.end(session)
            raise Unavailable(
                "the etcd lease of this client had ended; nothing happened. Try again"
            ) from None
        except EngineError:
            place.unanswered -= 1
            self.forget(place)
            raise
        place.unanswered -= 1
        place.created = codec.read_success(answer)
        if place.created and session.prove(self._link.turn):
            return _grant(request, place, asked_at)
        if place.created:
            return await self._granted(request, place, asked_at)
        return await self._joined(request, place, codec.read_txn(answer), queues, asked_at)

    async def _joined(
        self, request: Request, place: Place, outcome: codec.Outcome, queues: bool, asked_at: float
    ) -> Grant | Busy:
        """Somebody else has the lock or wants it."""
        everybody, first, *mine = outcome.found
        contenders = self._naming.contenders(request.name, everybody.pairs)
        if not queues:
            return await self._turned_away(request, place, contenders, first.pairs)
        ours = [pair for pair in mine[0].pairs if pair.value == place.value]
        if not ours:  # somebody took over what once was ours: leave it to them, use another key
            self.forget(place, keep_key=True)
            return await self._join(request, queues)
        place.created = ours[0].created
        place.holder = (contenders[0].key, _meta_of(contenders[0], first.pairs))
        return await self._judge(request, place, contenders, outcome.revision, asked_at)

    async def _turned_away(
        self,
        request: Request,
        place: Place,
        contenders: Sequence[codec.KeyValue],
        first: Sequence[codec.KeyValue],
    ) -> Grant | Busy:
        """What to answer to somebody who does not wait and has not joined."""
        if not contenders:  # nobody wants this name, but there are contenders for names below it
            return await self._step_up(request)
        head = [pair for pair in first if pair.key == contenders[0].key]
        if head and owner_of(head[0].value) == request.owner:
            return await self._take_over(request, head[0])
        self.forget(place)
        return Busy(LOOK_S, len(contenders) - 1, False, _meta_of(contenders[0], first))

    async def _step_up(self, request: Request) -> Grant | Busy:
        """Join, and leave at once if somebody else was quicker."""
        answer = await self._join(request, True)
        if isinstance(answer, Busy) and not request.queue:
            await self.withdraw(request)
            return answer._replace(queued=False)
        return answer

    async def _take_over(self, request: Request, pair: codec.KeyValue) -> Grant | Busy:
        """The lock is this owner's already, through another client or an answer that was lost."""
        asked_at = self._world.now()
        session = await self._sessions.fresh(request.ttl)
        same = codec.equal(codec.CREATED, pair.key, pair.created)
        attach = codec.do_put(codec.attach(pair.key, session.lease))
        outcome = await self._link.call(TXN, codec.txn([same], [attach]))
        if not codec.read_txn(outcome).succeeded:
            return Busy(POLL_S)
        place = self.adopt(request.owner, pair, session)
        return await self._granted(request, place, asked_at)

    def adopt(self, owner: str, pair: codec.KeyValue, session: Session) -> Place:
        """Look after a key that is on a lease of ours from now on."""
        place = Place(owner, pair.key, pair.value, session, session.ends_at)
        place.created = pair.created
        old = self.places.get(owner)
        if old is not None and old.key == pair.key:
            place.unanswered, old.unanswered = old.unanswered, 0
        if old is not None:
            self.forget(old)
        self.places[owner] = self._keys[pair.key] = place
        self._sessions.add(place)
        return place

    async def _look(self, request: Request, place: Place) -> Grant | Busy:
        """See whether it is our turn: key and lease must be there, and nobody before us."""
        asked_at = self._world.now()
        if asked_at > place.session.fresh_until:
            try:
                await self._sessions.extend(place.session)
            except LeaseGone:
                return await self._join(request, request.queue or request.waits)
        ways = self._naming.ways(request.name)
        ahead = codec.range_of(ways.lower, ways.upper, keys_only=True, created_max=place.created)
        found = codec.read_range(await self._link.call(RANGE, ahead, reads=True))
        contenders = self._naming.contenders(request.name, found.pairs)
        last = contenders[-1] if contenders else None
        if last is None or (last.key, last.created) != (place.key, place.created):
            self.forget(place)  # it was deleted, or its lease has ended
            return await self._join(request, request.queue or request.waits)
        if last.lease != place.session.lease:  # another client took it over: take it back
            return await self._take_over(request, last._replace(value=place.value))
        return await self._judge(request, place, contenders, found.revision, asked_at)

    async def _judge(
        self,
        request: Request,
        place: Place,
        contenders: Sequence[codec.KeyValue],
        revision: int,
        asked_at: float,
    ) -> Grant | Busy:
        ahead = [pair for pair in contenders if pair.created < place.created]
        if not ahead:
            return await self._granted(request, place, asked_at)
        place.waiting = True
        place.until = self._world.now() + LOOK_S + place.session.ttl
        place.ahead = (ahead[-1].key, revision)
        holder = await self._holder(place, ahead[0].key)
        place.signal = self._signals.get(request.owner)
        armed = place.signal is None or self._watcher.arm(place, *place.ahead)
        return Busy(LOOK_S if armed else POLL_S, len(ahead) - 1, True, holder)

    async def _granted(self, request: Request, place: Place, asked_at: float) -> Grant:
        if not place.session.prove(self._link.turn):
            await self._sessions.extend_surely(place.session)
        return _grant(request, place, asked_at)

    async def withdraw(self, request: Request) -> None:
        """Leave the queue, and the lock."""
        place = self.places.get(request.owner)
        if place is None:
            return  # it was never sent, or it is certain that nothing is left of it
        ours = codec.same_value(place.key, place.value)
        leave = codec.txn([ours], [codec.do_delete(codec.delete(place.key))])
        try:
            await self._link.call(TXN, leave)
        except FencelockError:
            place.until = self._world.now()
            raise
        self.forget(place)

    def forget(self, place: Place, certain: bool = False, keep_key: bool = False) -> None:
        """The key is gone; unless that is certain, a late request may still bring it back."""
        if certain:
            place.unanswered = 0
        self._watcher.disarm(place)
        self._sessions.drop(place)
        if self.places.get(place.owner) is place:
            del self.places[place.owner]
        if not keep_key and self._keys.get(place.key) is place:
            del self._keys[place.key]

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal whenever this owner should look again."""
        self._signals[owner] = signal
        place = self.places.get(owner)
        if place is not None and place.waiting:  # in the queue already: watch from there on
            place.signal = signal
            if not self._watcher.arm(place, *place.ahead):
                signal.set()

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)
        place = self.places.get(owner)
        if place is not None:
            place.signal = None
            self._watcher.disarm(place)

    def _place(self, request: Request, session: Session) -> Place:
        """Where this owner stands or will stand; the same one when it asks again."""
        old = self.places.get(request.owner)
        if old is not None and old.session is session:
            return old
        if old is not None:
            self.forget(old, certain=True)  # its lease has ended, and its key with it
        value = value_of(request.owner, self._world.wall_us(), request.meta)
        steps = session.steps.get(request.name) or self._steps(request.name, session)
        place = Place(request.owner, steps.key, value, session, 0.0)
        number = 0  # of another contender of this client; setdefault lets one thread have a key
        while place.key in session.ghosts or self._keys.setdefault(place.key, place) is not place:
            number += 1
            place.key = steps.key + b"-%d" % number
        if number:
            steps = self._naming.steps(request.name, place.key, session.lease)
        place.steps = steps
        self.places[request.owner] = place
        self._sessions.add(place)
        return place

    def _steps(self, name: str, session: Session) -> Steps:
        """Those with the first key of ours for a name; made once for names in use."""
        if len(session.steps) >= KEPT_MAX:
            session.steps.clear()
        key = self._naming.ways(name).lower + session.hex
        steps = session.steps[name] = self._naming.steps(name, key, session.lease)
        return steps

    async def _holder(self, place: Place, key: bytes) -> str:
        """What the holder says of itself; asked only when it is another than before."""
        if place.holder[0] != key:
            found = codec.read_range(await self._link.call(RANGE, codec.range_of(key), reads=True))
            place.holder = (key, meta_text(found.pairs[0].value) if found.pairs else "")
        return place.holder[1]


def _grant(request: Request, place: Place, asked_at: float) -> Grant:
    session = place.session
    ttl, ends_at = session.ttl, session.ends_at
    place.waiting, place.until = False, ends_at
    end = ends_at - drift(ttl)
    return Grant(request.name, request.owner, place.created, ttl, asked_at, end)


def _meta_of(holder: codec.KeyValue, first: Sequence[codec.KeyValue]) -> str:
    return meta_text(first[0].value) if first and first[0].key == holder.key else ""
