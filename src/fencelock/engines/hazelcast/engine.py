"""Locks in the CP Subsystem of Hazelcast: its FencedLock, as the Java client uses it.

A FencedLock is held by an endpoint: a CP session and a thread id. A lock request is appended to the
Raft log of a CP group, and the first one that finds the lock free holds it. A request that has to
wait is in the lock's queue, and is answered when its turn has come. An unlock request gives the
lock to the next. When a session ends, Hazelcast unlocks what it held. Programs that use the
FencedLock of the same name in the same CP group, in any language, exclude us, and we them.

* An owner is an endpoint with a thread id of its own: see ``holds.py``. A client has one session.
* A lost reply is resolved by sending the request again: each has an invocation uid, by which
  Hazelcast recognizes it and applies it once.
* The fence is the index of the lock request in the log of the CP group. It grows with every
  request of anything in the group, and it is in the log and in the snapshots of every member, so it
  grows across releases, sessions, elections and the restart of a minority. Waiters are served in
  the order of the log, so fences grow in the order of the grants. ``destroy`` of a lock does not
  restart it: Hazelcast refuses a name that was destroyed. Only the loss of the group does: of all
  members, or of a majority and a reset, without CP persistence.
* A lease is relied on for no longer than its session lives: see ``sessions.py``. A renewal is a
  heartbeat of the session, which is an entry of the log, and a linearizable read of each lock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World, sleep
from .holds import ENDED, NOTED_S, RECORDS, Hold, Holds, record_key
from .sessions import Session, Sessions
from .settings import OPTIONS, read
from .wire import wire_of
from .wire.errors import SessionGone, WaitCancelled

LOOK_S = 10.0  # a safety net for lost replies: Hazelcast itself answers a waiter
POLL_S = 1.0
SOON_S = 0.01
MOMENT_S = 0.05  # the time in which a free lock is mostly granted
TRIES = 3
LOOKS = 4  # reads of a holder whose record may not be written yet

LATE = Gone("expired", "its ttl was over before it was renewed")
LOST = Gone("revoked", "Hazelcast does not know it as the holder any more")
SHARED = "hazelcast has locks of one holder only: use redis, postgresql, mysql, etcd or zookeeper"
REVOKED = (
    "hazelcast cannot revoke a lock: its holder releases it, or its CP session ends. A member can "
    "close that by force (CPSessionManagementService.forceCloseSession)"
)
FREED = Busy(SOON_S)  # it was refused, but is free by now: retried at once
TAKEN_BACK = "the attempt was taken back before it was sent; nothing was done"


class HazelcastEngine(Engine):
    """``hazelcast://host:5701/cluster``, or several members: ``hazelcast://h1:5701,h2/cluster``."""

    schemes = ("hazelcast",)
    options: ClassVar = OPTIONS
    drivers = ("hazelcast",)
    first_holds = True
    traits = Traits("correctness", "network", fence=True, push=True, revoke=False, scan=False)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings = read(address)
        self._wire = wire = wire_of(world, settings)
        self._sessions = Sessions(world, wire, settings)
        self._holds = Holds(world, wire, self._sessions)
        self._opening = set[str]()  # owners whose request waits for a session

    async def open(self) -> None:
        await self._sessions.group()
        self._holds.on_gone = self.on_gone or self._holds.on_gone

    async def close(self) -> None:
        await self._holds.close()
        await self._wire.close()

    def close_nowait(self) -> None:
        self._holds.timer.close_nowait()
        self._wire.close_nowait()

    def _key(self, name: str) -> str:
        return self._settings.prefix + name

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        for tried in range(TRIES):
            hold = await self._attempt(request)
            answer = await self._answer(hold, request)
            if answer is not None and (answer is not FREED or tried == TRIES - 1):
                return answer
        raise Unavailable("sessions end here as soon as they are made: see the members' logs")

    async def _attempt(self, request: Request) -> Hold:
        """Return the owner's hold, with a lock request sent, or already answered."""
        hold = self._holds.by_owner.get(request.owner)
        if hold is not None and hold.session.is_over(self.world.now()):
            self._holds.ended(hold.session)
            hold = None
        if hold is not None and hold.ending:  # it was withdrawn: the rest of it is ended first
            await self._holds.end(hold)
            hold = None
        if hold is None:
            hold = await self._begin(request)
        if not hold.fence and not (
            hold.pending and hold.waits and not await self._was_let_in(hold)
        ):
            await self._wire.connect()
            if hold.ending:
                raise Unavailable(TAKEN_BACK)
            # A request that will wait joins the queue at once, which also grants a free lock.
            self._holds.send(hold, request.queue or request.waits)
        return hold

    async def _begin(self, request: Request) -> Hold:
        """Register a hold. Its session may take seconds, and the request be withdrawn meanwhile."""
        self._opening.add(request.owner)
        try:
            while True:
                session = await self._sessions.fresh(request.ttl)
                if request.owner not in self._opening:
                    raise Unavailable(TAKEN_BACK)
                key, known = self._key(request.name), self._holds.by_owner.get(request.owner)
                if (hold := known or self._holds.begin(request, key, session)) is not None:
                    return hold
        finally:
            self._opening.discard(request.owner)

    async def _was_let_in(self, hold: Hold) -> bool:
        """Return whether a hold whose lock request is still unanswered holds the lock."""
        state = await self._state(hold.session.group, hold.key)
        return (state["session_id"], state["thread_id"]) == (hold.session.id, hold.thread)

    async def _answer(self, hold: Hold, request: Request) -> Grant | Busy | None:
        """Wait for a reply and return its result; None if another session must be used."""
        moment = MOMENT_S if hold.waits else self._settings.request_timeout
        if not await self._holds.arrival(hold, moment):
            if hold.waits:
                return Busy(LOOK_S, None, True)
            raise OutcomeUnknown(f"Hazelcast has not answered whether {hold.key!r} is locked")
        answer = hold.answer
        if hold.fence:
            return await self._grant(hold, request)
        if isinstance(answer, SessionGone):
            self._holds.ended(hold.session)
            return None
        if isinstance(answer, Exception) and not isinstance(answer, WaitCancelled):
            if isinstance(answer, EngineError):
                self._holds.forget(hold)
            raise answer
        self._holds.forget(hold)
        if isinstance(answer, WaitCancelled):
            return Busy(SOON_S)
        state = await self._state(hold.session.group, hold.key)
        if not state["fence"]:
            return FREED
        return Busy(POLL_S, holder=await self._holder(request.name))

    async def _grant(self, hold: Hold, request: Request) -> Grant | Busy | None:
        """Make the grant of a hold, for no longer than its session lives."""
        ttl, now = min(request.ttl, hold.session.ttl), self.world.now()
        try:
            await self._sessions.renew_if_needed(hold.session, now - ttl / 10, ttl)
        except SessionGone:
            self._holds.ended(hold.session)
            return None
        since = hold.until - hold.ttl  # when its request was sent, or when its turn came
        counted = hold.session.counted_from(max(since, now - ttl / 10), ttl)
        if not self._holds.extend(hold, counted, ttl):
            return Busy(SOON_S)
        return granted(request.name, request.owner, hold.fence, ttl, counted)

    async def _holder(self, name: str) -> str:
        """Return the meta of the holder, if there is a record of it."""
        try:
            state = await self._state(await self._sessions.group(), self._key(name))
            found = await self._record(state) if state["fence"] else None
        except FencelockError:
            return ""
        return "" if found is None else str(found["meta"])

    async def watch(self, request: Request, signal: Signal) -> None:
        self._holds.signals[request.owner] = signal
        hold = self._holds.by_owner.get(request.owner)
        if hold is not None and not hold.pending:  # answered before the signal was registered
            signal.set()

    async def unwatch(self, request: Request) -> None:
        self._holds.signals.pop(request.owner, None)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        known, failures = dict[str, Grant | Gone](), list[Exception]()
        by_session: dict[Session, list[tuple[Grant, Hold]]] = {}
        for grant in grants:
            hold = self._holds.by_owner.get(grant.owner)
            if hold is None or hold.ending or not hold.fence:
                known[grant.owner] = LATE
            else:
                by_session.setdefault(hold.session, []).append((grant, hold))
        for session, held in by_session.items():
            try:
                known |= await self._renew(session, held)
            except SessionGone:
                self._holds.ended(session)
                known |= {grant.owner: ENDED for grant, _ in held}
            except (EngineError, OutcomeUnknown) as error:
                failures.append(error)
        if not known and failures:
            raise failures[0]
        # If neither is known, the old end stands, and the keeper retries.
        return [known.get(grant.owner, grant) for grant in grants]

    async def _renew(
        self, session: Session, held: Sequence[tuple[Grant, Hold]]
    ) -> dict[str, Grant | Gone]:
        """Send a heartbeat, and read from the CP group whether the locks are ours."""
        asked_at, renewed = self.world.now(), dict[str, Grant | Gone]()
        if session.is_over(asked_at):
            raise SessionGone
        looks: list[tuple[str, Sequence[Any]]] = [
            ("ownership", (session.group, hold.key)) for _, hold in held
        ]
        beat = ("heartbeat", (session.group, session.id))
        first, *states = await self._wire.call_all([beat, *looks])
        if isinstance(first, Exception):
            raise first
        self._sessions.confirm(session, asked_at)
        for (grant, hold), state in zip(held, states, strict=True):
            if isinstance(state, Exception):
                continue  # the keeper retries
            ttl = min(grant.ttl, session.ttl)
            if not hold.owns(state):
                await self._holds.end(hold)
                renewed[grant.owner] = LOST
            elif not self._holds.extend(hold, asked_at, ttl):
                renewed[grant.owner] = LATE
            else:
                renewed[grant.owner] = granted(grant.name, grant.owner, grant.fence, ttl, asked_at)
                if not hold.record_at:
                    await self._holds.record(hold)
        return renewed

    async def release(self, grant: Grant) -> bool:
        if (hold := self._holds.by_owner.get(grant.owner)) is None:
            return False
        self._holds.is_due(hold)
        return await self._holds.end(hold) and not hold.expired

    async def withdraw(self, request: Request) -> None:
        self._opening.discard(request.owner)
        if (hold := self._holds.by_owner.get(request.owner)) is not None:
            await self._holds.end(hold)

    # Inspect

    async def inspect(self, name: str) -> State:
        group, key = await self._sessions.group(), self._key(name)
        state = await self._state(group, key)
        for _ in range(LOOKS):
            if not state["fence"]:
                return State(name, ())
            found = await self._record(state)
            if found is not None:
                age = max(self.world.wall_us() - found["since"], 0) / 1e6
                ttl, meta = float(found["ttl"]), json.loads(found["meta"] or "{}")
                return State(name, (Holding(name, state["fence"], ttl, age, ttl, meta),))
            await sleep(self.world, NOTED_S)
            state = await self._state(group, key)
        session = await self._sessions.fresh(POLL_S)  # another program's: all have one ttl
        about = {"session": state["session_id"], "thread": state["thread_id"]}
        return State(name, (Holding(name, state["fence"], session.ttl, 0.0, session.ttl, about),))

    async def _state(self, group: Any, key: str) -> dict[str, int]:
        """Read the ownership of a lock, linearizable."""
        try:
            return dict(await self._sessions.call("ownership", group, key))
        except SessionGone as error:
            raise Unavailable("the CP group was destroyed just now: try again") from error

    async def _record(self, state: dict[str, int]) -> dict[str, Any] | None:
        """Read the record that the holder has written of itself."""
        key = record_key(state["session_id"], state["thread_id"])
        found = await self._sessions.call("get", RECORDS, key, 0)
        return None if found is None else dict(json.loads(found))

    async def revoke(self, name: str, reason: str) -> bool:
        raise Unsupported(REVOKED)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._wire, await self._sessions.fresh(POLL_S), self._settings)
