"""The queue for a name: joining it, finding out whose turn it is, and leaving it.

One transaction takes a free lock, or joins the queue and reads its ends. Whoever stands behind
another watches that one only. After a wait the queue is read again (``looking.py``): our key must
still be there, so its lease must be, and be the first.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ...errors import EngineError, OutcomeUnknown, Unavailable
from ...model import Busy, Grant, Request
from ...wires.grpc.call import RpcError
from ...world import Signal, World
from . import replies, requests
from .link import RANGE, TXN, LeaseGone, Link
from .looking import Ahead, Looking
from .naming import JOIN, TRY, Naming, meta_text, owner_of
from .session import Sessions
from .standing import Standing
from .tenancy import Place
from .watcher import Watcher

R = TypeVar("R")

LOOK_S = 60.0  # the watch tells; this is the net under it
POLL_S = 1.0  # while there is no watch
CROWDED = 8  # a lock that was wanted by others is expected to be for so many times


class Contending:
    """All contenders of one client."""

    def __init__(
        self,
        world: World,
        link: Link,
        sessions: Sessions,
        watcher: Watcher,
        naming: Naming,
        standing: Standing,
    ) -> None:
        self._world = world
        self._link = link
        self._sessions = sessions
        self._watcher = watcher
        self._naming = naming
        self._standing = standing
        self._looking = Looking(link, naming)
        self._signals: dict[str, Signal] = {}

    def acquire(self, request: Request) -> Coroutine[Any, Any, Grant | Busy]:
        place = self._standing.places.get(request.owner)
        if place is None or place.session.ended or not place.created:
            return self._join(request, request.queue or request.waits)
        return self._go_on(request, self._look(request, place))

    async def _go_on(self, request: Request, step: Coroutine[Any, Any, R]) -> R:
        """Take a further step for somebody whose key is there.

        One who waits stays where it is when that fails; for anybody else "nothing happened" would
        not be true.
        """
        try:
            return await step
        except EngineError as error:
            if request.queue:
                raise
            raise OutcomeUnknown(
                f"{request.name!r} was asked for, and then etcd did not serve ({error}): it may be "
                f"held for {request.ttl:g} s",
                until=request.ttl,
            ) from error

    async def _join(self, request: Request, queues: bool, crowded: bool = False) -> Grant | Busy:
        """Take the lock if nobody has it or wants it; else join the queue, where that is wished.

        A lock that was free the last few times is asked for in fewer words first; when it is not
        free after all, nothing has happened, and the queue is joined in a second step.
        """
        link, asked_at = self._link, self._world.now()
        session = self._sessions.ready.get(request.ttl)
        if (
            session is None
            or session.ended
            or not asked_at <= session.fresh_until < session.ends_at
        ):
            session = await self._sessions.fresh(request.ttl)
        session.used_at = asked_at
        place = self._standing.take(request, session)
        place.until = asked_at + session.ttl
        steps = place.steps or self._naming.steps(request.name, place.key, session.lease)
        joins = queues and (crowded or steps.crowded > 0 or place.unanswered > 0)
        place.unanswered += 1  # until the answer, whatever ends this call, it may take effect
        place.hoped = session.hoped
        turn, join = link.turn, steps.join(place.value, JOIN if joins else TRY)
        try:
            try:
                answer = await link.transact(turn, join)
            except RpcError as error:
                answer = await link.settle(error, turn, join)
            except BaseException:
                link.gave_up(turn, asked_at)
                raise
        except LeaseGone:
            self._standing.forget(place, certain=True)
            self._sessions.end(session)
            raise Unavailable(
                "the etcd lease of this client had ended; nothing happened. Try again"
            ) from None
        except EngineError:
            place.unanswered -= 1
            self._standing.forget(place)
            raise
        place.unanswered -= 1
        place.created = replies.read_success(answer)
        if not place.created:
            steps.crowded = CROWDED
            if queues and not joins:
                return await self._join(request, queues, True)
            outcome = replies.read_txn(answer)
            if not queues:
                return await self._turned_away(request, place, outcome.found[0])
            return await self._go_on(request, self._joined(request, place, outcome))
        if steps.crowded:
            steps.crowded -= 1
        turn = link.turn
        if session.proved_in == turn or session.prove(turn, place.hoped):
            return place.grant(request.name, asked_at)
        return await self._go_on(request, self._granted(request, place, asked_at))

    async def _joined(
        self, request: Request, place: Place, outcome: replies.Outcome
    ) -> Grant | Busy:
        """Somebody else has the lock or wants it, and we are in the queue."""
        ours = [pair for pair in outcome.found[2].pairs if pair.value == place.value]
        if not ours:  # somebody took over what once was ours: leave it to them, use another key
            self._standing.forget(place, keep_key=True)
            return await self._join(request, True)
        place.created = ours[0].created
        ahead = self._looking.joined(request.name, place, outcome)
        if ahead is None or ahead.last is None:
            return await self._look(request, place)
        return await self._wait(request, place, ahead)

    async def _turned_away(
        self, request: Request, place: Place, found: replies.Found
    ) -> Grant | Busy:
        """What to answer to somebody who does not wait and has not joined."""
        first = found.pairs
        contenders = self._naming.contenders(request.name, first)
        if found.total > 1:  # others wait, or want names below this one: who does what?
            everybody = self._naming.ways(request.name).everybody
            answer = await self._link.call(RANGE, everybody, reads=True)
            contenders = self._naming.contenders(request.name, replies.read_range(answer).pairs)
        if not contenders:  # nobody wants this name, but there are contenders for names below it
            return await self._step_up(request)
        head = [pair for pair in first if pair.key == contenders[0].key]
        if head and owner_of(head[0].value) == request.owner:
            return await self._take_over(request, head[0])
        self._standing.forget(place)
        return Busy(LOOK_S, len(contenders) - 1, False, _meta_of(contenders[0], first))

    async def _step_up(self, request: Request) -> Grant | Busy:
        """Join, and leave at once if somebody else was quicker."""
        answer = await self._join(request, True)
        if isinstance(answer, Busy) and not request.queue:
            await self.withdraw(request)
            return answer._replace(queued=False)
        return answer

    async def _take_over(self, request: Request, pair: replies.KeyValue) -> Grant | Busy:
        """The lock is this owner's already, through another client or an answer that was lost."""
        asked_at = self._world.now()
        session = await self._sessions.fresh(request.ttl)
        place = self._standing.adopt(request.owner, pair, session)  # first: it may go unanswered
        same = requests.equal(requests.CREATED, pair.key, pair.created)
        attach = requests.do_put(requests.attach(pair.key, session.lease))
        outcome = await self._link.call(TXN, requests.txn([same], [attach]))
        if not replies.read_txn(outcome).succeeded:
            self._standing.forget(place)
            return Busy(POLL_S)
        return await self._granted(request, place, asked_at)

    async def _look(self, request: Request, place: Place) -> Grant | Busy:
        """See whether it is our turn: key and lease must be there, and nobody before us."""
        asked_at = self._world.now()
        if place.session.wants_extension(asked_at):
            try:
                await self._sessions.extend(place.session)
            except LeaseGone:
                return await self._join(request, request.queue or request.waits)
        place.hoped = place.session.hoped
        ahead = await self._looking.ahead(request.name, place)
        if ahead.mine is None:
            self._standing.forget(place)  # it was deleted, or its lease has ended
            return await self._join(request, request.queue or request.waits)
        if ahead.mine.lease != place.session.lease:  # another client took it over: take it back
            return await self._take_over(request, ahead.mine._replace(value=place.value))
        if ahead.last is None:
            return await self._granted(request, place, asked_at)
        return await self._wait(request, place, ahead)

    async def _wait(self, request: Request, place: Place, ahead: Ahead) -> Busy:
        """Be told when the one before us goes."""
        assert ahead.first is not None
        assert ahead.last is not None
        place.waiting = True
        place.ahead = (ahead.last.key, ahead.revision, ahead.is_long)
        place.signal = self._signals.get(request.owner)
        place.wanted(self._world.now(), LOOK_S)
        holder = await self._holder(place, ahead.first.key)
        armed = place.signal is None or self._watcher.arm(place, *place.ahead)
        position = None if ahead.total is None else ahead.total - 1
        return Busy(LOOK_S if armed else POLL_S, position, True, holder)

    async def _granted(self, request: Request, place: Place, asked_at: float) -> Grant:
        if not place.session.prove(self._link.turn, place.hoped):
            await self._sessions.extend_surely(place.session)
        return place.grant(request.name, asked_at)

    async def withdraw(self, request: Request) -> None:
        """Leave the queue, and the lock."""
        place = self._standing.places.get(request.owner)
        if place is None:
            return  # it was never sent, or it is certain that nothing is left of it
        ours = requests.same_value(place.key, place.value)
        leave = requests.txn([ours], [requests.do_delete(requests.delete(place.key))])
        try:
            await self._link.call(TXN, leave)
        except BaseException:
            place.until = self._world.now()  # whoever looks after the leases tries on
            raise
        self._standing.forget(place)

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal whenever this owner should look again."""
        self._signals[owner] = signal
        place = self._standing.places.get(owner)
        if place is not None and place.waiting:  # in the queue already: watch from there on
            place.signal = signal
            place.wanted(self._world.now(), LOOK_S)
            if not self._watcher.arm(place, *place.ahead):
                signal.set()

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)
        place = self._standing.places.get(owner)
        if place is not None:
            place.signal = None
            self._watcher.disarm(place)
            place.until = min(place.until, self._world.now() + place.session.ttl)

    async def _holder(self, place: Place, key: bytes) -> str:
        """What the holder says of itself; asked only when it is another than before."""
        if place.holder[0] != key:
            found = replies.read_range(
                await self._link.call(RANGE, requests.range_of(key), reads=True)
            )
            place.holder = (key, meta_text(found.pairs[0].value) if found.pairs else "")
        return place.holder[1]


def _meta_of(holder: replies.KeyValue, first: Sequence[replies.KeyValue]) -> str:
    return meta_text(first[0].value) if first and first[0].key == holder.key else ""
