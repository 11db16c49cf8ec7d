"""The registry of what this client holds, waits for or may come to hold; ends what is past its ttl.

Each attempt is an endpoint of its own for Hazelcast: the session, and a thread id that no other
attempt on it has. An unlock by an endpoint releases what it holds, and removes it from the queue if
it waits. It may overtake the lock request, which takes another way through the members: so an
attempt is unlocked again once that request is answered. After a request that the client gave up on,
the unlock is repeated until no member can still have that request.

A heartbeat of a session keeps all its leases. So each lease has an end of its own here, and is
unlocked if it is not renewed by then. A process that dies unlocks nothing: Hazelcast does when the
session ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...errors import FencelockError, OutcomeUnknown
from ...model import Gone, Request
from ...world import Signal, World, snapshot
from ..shared_session import end_if_unused
from ..timer import NEVER, RETRY_S, Timer
from .sessions import Session, Sessions
from .wire import Text, Uid, Wire
from .wire.errors import NotOwner, SessionGone

IDLE_S = 60.0  # an unused session is kept so long, so that the next acquire is quick
LATE_S = 130.0  # a member gives up an operation after 60 s, and may have got it from another member
UNLOCK_AGAIN_S = 2.0  # between two unlocks of what may be granted late
NOTED_S = 0.05  # a shorter hold gets no record of its holder
RECORDS = "fencelock.holders"  # the map with the records of holders
RECORD_TTLS = 4  # the time to live of a record, in ttls of its lease
RECORD_MIN_S = 60.0
ARRIVALS_S = (0.05, 0.5, 2.0)  # how long an unlock waits for a lock request that it overtook
THREAD_MIN = 2**53  # above those of other clients, which count from one or take addresses
STILL_LOCKED = True  # by the same endpoint: two of its lock requests were applied
ENDED = Gone("session", "its CP session has ended")


class Hold:
    """One attempt, from before it is sent until it certainly holds nothing."""

    def __init__(self, request: Request, key: str, session: Session, thread: int) -> None:
        self.owner, self.meta, self.ttl = request.owner, request.meta, request.ttl
        self.key = key
        self.session = session
        self.thread = thread
        self.uid = self.unlock_uid = Uid("")
        """The invocation uids of the last lock request, and of the next unlock request."""
        self.waits = False
        """Whether its lock request waits in the queue."""
        self.pending = False
        """Whether its lock request is unanswered yet."""
        self.arrived: Signal | None = None
        self.answer: Any = None
        """The last reply: a fence, zero, or an error."""
        self.fence = 0
        self.since_us = 0
        self.until = NEVER
        """When it is unlocked unless it is renewed."""
        self.late_until = 0.0
        """Until when a request that was unanswered, or sent twice, may be applied."""
        self.doubted = False
        self.record_at = NEVER
        """When its record must be written next."""
        self.expired = False
        """Whether it was past its end before it was released."""
        self.ending = False
        """Whether it is being unlocked, because it is past its end, released or withdrawn."""

    @property
    def endpoint(self) -> tuple[Any, str, int, int]:
        return self.session.group, self.key, self.session.id, self.thread

    def owns(self, state: dict[str, int]) -> bool:
        """Return whether the lock is held by this attempt, according to Hazelcast."""
        found = state["session_id"], state["thread_id"], state["fence"]
        return found == (self.session.id, self.thread, self.fence)


class Holds:
    """The holds of one client, by owner."""

    def __init__(self, world: World, wire: Wire, sessions: Sessions) -> None:
        self._world = world
        self._wire = wire
        self._sessions = sessions
        self._mutex = world.mutex()
        self._threads = int(world.random() * THREAD_MIN) + THREAD_MIN
        self.by_owner: dict[str, Hold] = {}
        self.signals: dict[str, Signal] = {}
        """The signals of waiters, by owner."""
        self.timer = Timer(world, self._run, "fencelock-hazelcast")
        self.on_gone: Callable[[Collection[str], Gone], None] = lambda owners, gone: None

    def begin(self, request: Request, key: str, session: Session) -> Hold | None:
        """Register an attempt before its request is sent; None if its session is being closed."""
        with self._mutex:
            if session.ended:
                return None
            self._threads += 1
            hold = Hold(request, key, session, self._threads)
            hold.unlock_uid = Uid(self._world.owner())
            self.by_owner[request.owner] = hold
        self.timer.expect(session.alive_at + session.beat)
        return hold

    def send(self, hold: Hold, waits: bool) -> None:
        """Send a lock request: ``lock``, which waits in the queue, or ``try_lock``.

        The request is made first: if a signal handler raises before the hold is changed, no reply
        is expected.
        """
        again = hold.pending or isinstance(hold.answer, OutcomeUnknown)
        is_known = again and waits == hold.waits  # to Hazelcast, if that has received it
        uid = hold.uid if is_known else Uid(self._world.owner())
        arguments = (*hold.endpoint, uid) if waits else (*hold.endpoint, uid, 0)
        asked_at = self._world.now()
        request = self._wire.request(
            "lock" if waits else "try_lock",
            arguments,
            lambda answer, resent: self._answered(hold, uid, asked_at, answer, resent),
            waits,
        )
        arrived = self._world.signal()
        with self._mutex:
            if hold.fence:
                return  # it was just answered; another request would lock twice
            hold.uid, hold.waits, hold.doubted = uid, waits, hold.doubted or again
            hold.answer, hold.arrived, hold.late_until = None, arrived, asked_at + LATE_S
            hold.pending = True
        request.send()

    def _answered(self, hold: Hold, uid: Uid, asked_at: float, answer: Any, resent: bool) -> None:
        """Handle the reply to a lock request, in any thread."""
        now = self._world.now()
        with self._mutex:
            hold.pending = hold.pending and hold.uid != uid
            if isinstance(answer, int) and answer > 0:
                # On the server it ends with the session; its ttl here counts from the end of the
                # wait.
                since = now if hold.waits else asked_at
                hold.fence, hold.since_us = answer, self._world.wall_us()
                hold.until = now if hold.ending else since + hold.ttl
                hold.record_at = now + NOTED_S
            hold.doubted = hold.doubted or resent or isinstance(answer, OutcomeUnknown)
            if not hold.pending:  # a copy of a request that was sent twice may still be applied
                hold.late_until = now + LATE_S if hold.doubted else 0.0
            hold.answer = answer
        self.timer.expect(min(hold.until, hold.record_at))
        if hold.arrived is not None:
            hold.arrived.set()
        if (signal := self.signals.get(hold.owner)) is not None:
            signal.set()

    async def arrival(self, hold: Hold, within: float) -> bool:
        """Wait for the reply to a hold's lock request; return whether it has come."""
        if hold.pending and hold.arrived is not None:
            await self._world.wait(hold.arrived, self._world.now() + within)
        return not hold.pending

    def extend(self, hold: Hold, asked_at: float, ttl: float) -> bool:
        """Set the end of a hold to ``asked_at`` plus the ttl; False if it is being unlocked."""
        with self._mutex:
            if hold.ending or not hold.fence:
                return False
            hold.until = asked_at + ttl
            if hold.ttl != ttl:
                hold.ttl, hold.record_at = ttl, 0.0
        self.timer.expect(hold.until)
        return True

    def is_due(self, hold: Hold) -> bool:
        """Return whether a hold is past its end: then it cannot be extended any more."""
        with self._mutex:
            due = hold.until <= self._world.now()
            hold.expired = hold.expired or (due and not hold.ending)
            hold.ending = hold.ending or due
        return due

    async def end(self, hold: Hold) -> bool:
        """Unlock until no request of this attempt holds or waits; return whether it held.

        If the lock request is still unanswered then, the background job unlocks again.
        """
        freed = False
        for within in ARRIVALS_S:
            (answer,) = await self._unlock([hold])
            if isinstance(answer, SessionGone):
                return freed
            if isinstance(answer, Exception) and not isinstance(answer, NotOwner):
                raise answer
            freed = freed or not isinstance(answer, NotOwner)
            has_arrived = await self.arrival(hold, within)
            if has_arrived and not hold.fence and answer is not STILL_LOCKED:
                break
        self.forget(hold)
        return freed

    async def _unlock(self, holds: Sequence[Hold]) -> list[Any]:
        """Unlock each hold once, in one batch; return the replies."""
        with self._mutex:
            for hold in holds:
                hold.ending, hold.fence = True, 0
        requests = [("unlock", (*hold.endpoint, hold.unlock_uid)) for hold in holds]
        answers = await self._wire.call_all(requests)
        for hold, answer in zip(holds, answers, strict=True):
            if isinstance(answer, SessionGone):
                self.ended(hold.session)
            elif not isinstance(answer, FencelockError):
                hold.unlock_uid = Uid(self._world.owner())
        return answers

    def forget(self, hold: Hold) -> None:
        """Forget a hold that holds nothing, unless a request may still be applied."""
        now = self._world.now()
        if hold.late_until > now and not hold.session.ended:
            hold.ending, hold.until = True, now + UNLOCK_AGAIN_S
            self.timer.expect(hold.until)
        elif self.by_owner.get(hold.owner) is hold:
            self.by_owner.pop(hold.owner, None)

    def ended(self, session: Session) -> None:
        """Forget the holds of a session that has ended, and report that to their owners."""
        self._sessions.end(session)
        ended = [hold for _, hold in snapshot(self.by_owner) if hold.session is session]
        for hold in ended:
            if self.by_owner.get(hold.owner) is hold:
                self.by_owner.pop(hold.owner, None)
        held = [hold for hold in ended if hold.fence and not hold.ending]
        # An owner past its end was frozen, and finds that out by its own clock.
        self.on_gone({hold.owner for hold in held if hold.until > self._world.now()}, ENDED)

    async def _run(self) -> float:
        """Renew sessions, unlock holds past their end, write records; return when to run again."""
        soonest = NEVER
        for _, session in snapshot(self._sessions.by_id):
            soonest = min(soonest, await self._maintain(session))
        holds = [hold for _, hold in snapshot(self.by_owner)]
        await self._end_due([hold for hold in holds if self.is_due(hold)])
        for hold in holds:
            if not hold.ending and hold.record_at <= self._world.now():
                await self.record(hold)
            if self.by_owner.get(hold.owner) is hold:
                soonest = min(soonest, hold.until, hold.record_at)
        return soonest

    async def _end_due(self, due: Sequence[Hold]) -> None:
        """Unlock holds past their end; those that fail, or are locked again, are retried."""
        try:
            answers: list[Any] = await self._unlock(due) if due else []
        except FencelockError as error:  # no member can be reached
            answers = [error] * len(due)
        for hold, answer in zip(due, answers, strict=True):
            if isinstance(answer, FencelockError):
                hold.until = max(hold.until, self._world.now() + UNLOCK_AGAIN_S)
            elif not hold.fence and answer is not STILL_LOCKED:
                self.forget(hold)

    async def _maintain(self, session: Session) -> float:
        """Renew a session at its interval, or close an unused one; return when to run again."""
        if self._sessions.is_spent(session, IDLE_S) and self._end_unused(session):
            await self._sessions.close(session)
            return NEVER
        if self._world.now() >= session.alive_at + session.beat:
            try:
                await self._sessions.renew(session)
            except SessionGone:
                self.ended(session)
                return NEVER
            except FencelockError:
                return self._world.now() + RETRY_S
        return session.alive_at + session.beat

    def _end_unused(self, session: Session) -> bool:
        return end_if_unused(session, self.by_owner, self._mutex, self._sessions.end)

    async def record(self, hold: Hold) -> None:
        """Write the record of a holder, for inspection: nothing is decided by it."""
        hold.record_at = self._world.now() + hold.ttl * RECORD_TTLS / 2
        about = {"ttl": hold.ttl, "since": hold.since_us, "meta": hold.meta}
        lasts = max(hold.ttl * RECORD_TTLS, RECORD_MIN_S)
        try:
            key, value = record_key(hold.session.id, hold.thread), Text(json.dumps(about))
            await self._sessions.call("put", RECORDS, key, value, 0, int(lasts * 1000))
        except FencelockError:
            pass

    async def close(self) -> None:
        """Stop the background job, and close the sessions that hold nothing."""
        await self.timer.close()
        held = {hold.session for _, hold in snapshot(self.by_owner) if hold.fence}
        for _, session in snapshot(self._sessions.by_id):
            if session not in held:
                await self._sessions.close(session)


def record_key(session: int, thread: int) -> Text:
    """Return the key of an endpoint's record. Sessions of other CP groups have other thread ids."""
    return Text(f"{session}/{thread}")
