"""Locks in Consul: the recipe of ``consul lock`` and of HashiCorp's client for Go.

A lock is a key that is held by a session. Each contender sends a request to acquire the key for its
session, and the first one succeeds. A waiter has a blocking query on the key, and retries when it
changes. A release deletes the key; when a session ends, Consul deletes it. Programs that follow the
recipe on the same key exclude us, and we them.

* An acquire is a transaction: check that the key is still free, and lock it. Both in one step,
  because a session that holds a key may acquire it again, and one session serves many owners.
* The fence is the ModifyIndex of the write that acquired the key: its index in the servers' Raft
  log. It grows with every write of anything, and survives restarts, elections and snapshots, so it
  grows across a deletion of the key. (The LockIndex restarts with a new key.)
* A lost reply is resolved by a retry for the same owner, whose id is in the value.
* A lease is relied on for no longer than its session lives: see ``sessions.py``. A renewal has the
  leader confirm, with a majority, that the keys are as we have written them.
* Another client with the same owner, or a longer ttl, needs another session: one transaction
  unlocks the key and locks it again. The fence is in the value from then on.
* Every end of a hold deletes the key on condition that it has the index of our own write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, Misconfigured, OutcomeUnknown, Unavailable, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from . import pairs
from .agents import NO_LEADER, OPERATIONS_MAX, Agents, Refused
from .holds import ENDED, Hold, Holds
from .listing import Listing
from .pairs import Keys, Operation, Pair
from .sessions import Session, SessionGone, Sessions
from .settings import OPTIONS, read
from .watches import Watches

LOOK_S = 10.0  # a safety net: a blocking query wakes waiters
POLL_S = 1.0  # without a query, and during a lock-delay
SOON_S = 0.01  # after the key changed between the read and the transaction
TRIES = 3

LATE = Gone("expired", "its ttl was over before it was renewed")
SHARED = "consul has locks of one holder only: use redis, postgresql, mysql, etcd or zookeeper"


class ConsulEngine(Engine):
    """``consul://host:8500``, or several agents of one datacenter: ``consul://h1:8500,h2:8500``."""

    schemes = ("consul",)
    options: ClassVar = OPTIONS
    drivers = ("h11",)
    traits = Traits("correctness", "network", fence=True, push=True, durable=True, portable=True)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings = read(address)
        self._keys = Keys(settings.prefix)
        self._agents = agents = Agents(world, settings)
        self._sessions = Sessions(world, agents, settings)
        self._holds = Holds(world, agents, self._sessions)
        self._watches = Watches(world, agents)
        self._listing = Listing(world, agents, self._keys, self._sessions)

    async def open(self) -> None:
        leader = await self._agents.get("/v1/status/leader", str.strip)
        if not leader:
            raise Unavailable(f"{self.address.public}: {NO_LEADER}")
        self._holds.on_gone = self.on_gone or self._holds.on_gone

    async def close(self) -> None:
        self._watches.close()
        await self._holds.close()
        self._agents.nodes.close()

    def close_nowait(self) -> None:
        self._watches.close()
        self._holds.timer.close_nowait()
        self._agents.nodes.close()

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        key, found = self._keys.of(request.name), None
        for turn in range(TRIES):
            if request.queue or turn:  # a transaction that fails is a write, too, a read is not
                found = await self._agents.find(key)
            if found is not None and found.session:
                return await self._result_of_found(request, found)
            if (taken := await self._take(request, key, found)) is not None:
                return taken
        return Busy(SOON_S)

    async def _take(self, request: Request, key: str, found: Pair | None) -> Grant | Busy | None:
        """Acquire a key that was read as free; None if it has changed since."""
        if found is not None and not found.is_lock:
            raise Misconfigured(
                f"the key {key!r} of Consul has a value that is no lock's, and stays as it is: "
                "lock another name, or give a prefix= of your own"
            )
        hold = await self._begin(request.owner, key, request.ttl)
        if hold is None:
            return Busy(SOON_S)
        ttl = min(request.ttl, hold.session.ttl)
        asked_at = hold.until - ttl
        value = pairs.acquired(request, ttl, self.world.wall_us())
        wanted = [pairs.free(key, found), pairs.lock(key, hold.session.id, value)]
        refused = await self.world.shield(self._write(hold, wanted))
        if refused is None:
            return granted(request.name, request.owner, hold.modify_index or 0, ttl, asked_at)
        return Busy(POLL_S) if refused.says("lock delay") else None

    async def _begin(self, owner: str, key: str, ttl: float) -> Hold | None:
        """Register a hold on a fresh session; None while the owner's former hold is being ended."""
        while True:
            session = await self._sessions.fresh(ttl)
            ttl = min(ttl, session.ttl)
            asked_at = session.counted_from(self.world.now(), ttl)
            hold = self._holds.begin(owner, key, session, asked_at + ttl)
            if hold is not None or not session.ended:
                return hold

    async def _write(self, hold: Hold, operations: Sequence[Operation]) -> Refused | None:
        """Lock a hold's key; return why not, if refused. An unknown outcome keeps it registered."""
        before = self._holds.mark_unanswered(
            hold
        )  # first: an exception may come at any moment from here
        try:
            done = await self._agents.transact(*operations)
        except EngineError:
            hold.late_until = before
            self._holds.forget(hold)
            raise
        hold.late_until = before
        if not isinstance(done, Refused):
            hold.modify_index = done[-1].modify_index
            return None
        self._holds.forget(hold)
        if done.says("invalid session"):
            self._holds.ended(hold.session)
        return done

    async def _result_of_found(self, request: Request, found: Pair) -> Grant | Busy:
        """Return the result for a key that is held: its own grant, or Busy."""
        asked_at = self.world.now()
        if found.owner == request.owner:
            hold = await self._adopt(found, request.ttl)
            if hold is None:
                return Busy(SOON_S)
            return self._grant_of(hold, request, asked_at, found.fence) or Busy(SOON_S)
        armed = request.queue and self._watches.arm(found.key, found.modify_index)
        return Busy(LOOK_S if armed else POLL_S, holder=json.dumps(found.meta))

    async def _adopt(self, found: Pair, ttl: float) -> Hold | None:
        """Move an owner's key to a session of ours that is long enough; None if it has changed."""
        session, now = self._sessions.by_id.get(found.session), self.world.now()
        if session is not None and session.ttl >= self._sessions.ttl_for(ttl):
            try:
                await self._sessions.renew_if_needed(session, now, ttl)
            except SessionGone:
                self._holds.ended(session)
                return None
            hold = self._holds.begin(found.owner, found.key, session, now + ttl)
            return None if hold is None else await self._confirmed(hold, found)
        if (hold := await self._begin(found.owner, found.key, ttl)) is None:
            return None
        value = pairs.moved(found, min(ttl, hold.session.ttl))
        lock = pairs.lock(found.key, hold.session.id, value)
        unchanged = pairs.unchanged(found.key, found.modify_index)
        refused = await self.world.shield(self._write(hold, [unchanged, pairs.unlock(found), lock]))
        return hold if refused is None else None

    async def _confirmed(self, hold: Hold, found: Pair) -> Hold | None:
        """Return the hold of a key that was read before it was registered; None if it changed."""
        if await self._agents.check([pairs.unchanged(found.key, found.modify_index)]):
            self._holds.forget(hold)
            return None
        hold.modify_index = found.modify_index
        return hold

    async def watch(self, request: Request, signal: Signal) -> None:
        self._watches.join(self._keys.of(request.name), request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._watches.leave(self._keys.of(request.name), request.owner)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        known, failures = dict[str, Grant | Gone](), list[Exception]()
        by_session: dict[Session, list[tuple[Grant, Hold]]] = {}
        for grant in grants:
            try:
                hold = await self._held(grant)
            except (EngineError, OutcomeUnknown) as error:
                failures.append(error)
                continue
            if isinstance(hold, Gone):
                known[grant.owner] = hold
            else:
                by_session.setdefault(hold.session, []).append((grant, hold))
        for session, held in by_session.items():
            try:
                for first in range(0, len(held), OPERATIONS_MAX):
                    known |= await self._renew(session, held[first : first + OPERATIONS_MAX])
            except SessionGone:
                self._holds.ended(session)
                known |= {grant.owner: ENDED for grant, _ in held}
            except (EngineError, OutcomeUnknown) as error:
                failures.append(error)
        if not known and failures:
            raise failures[0]
        # If neither is known, the old end stands, and the keeper retries.
        return [known.get(grant.owner, grant) for grant in grants]

    async def _held(self, grant: Grant) -> Hold | Gone:
        """Return the hold of a grant, on a session that is long enough, or why it is gone."""
        hold, wanted = self._holds.by_owner.get(grant.owner), self._sessions.ttl_for(grant.ttl)
        if hold is not None and hold.ending:
            return LATE
        if hold is not None and hold.session.is_over(self.world.now()):
            return ENDED
        if hold is not None and hold.modify_index is not None and hold.session.ttl >= wanted:
            return hold
        found = await self._agents.find(self._keys.of(grant.name))
        if found is None or not found.session or found.owner != grant.owner:
            return await self._listing.why_gone(grant.owner)
        return await self._adopt(found, grant.ttl) or LATE

    async def _renew(
        self, session: Session, held: Sequence[tuple[Grant, Hold]]
    ) -> dict[str, Grant | Gone]:
        """Renew a session if needed, then have a majority's leader check that the keys are ours."""
        asked_at, answers = self.world.now(), dict[str, Grant | Gone]()
        await self._sessions.renew_if_needed(session, asked_at, max(grant.ttl for grant, _ in held))
        checks = [pairs.unchanged(hold.key, hold.modify_index or 0) for _, hold in held]
        lost = await self._agents.check(checks)
        for number, (grant, hold) in enumerate(held):
            kept: Hold | Gone = hold
            if number in lost:
                hold.modify_index = None
                kept = await self._held(grant)  # it may be with another client of the owner
            if isinstance(kept, Gone):
                self._holds.forget(hold)
                answers[grant.owner] = kept
            else:
                renewed = self._grant_of(kept, grant, asked_at, grant.fence)
                answers[grant.owner] = renewed or LATE
        return answers

    def _grant_of(
        self, hold: Hold, wanted: Request | Grant, asked_at: float, fence: int
    ) -> Grant | None:
        """Make the grant of a hold, for no longer than its session lives; None if it has ended."""
        ttl = min(wanted.ttl, hold.session.ttl)
        counted = hold.session.counted_from(asked_at, ttl)
        if not self._holds.extend(hold, counted + ttl):
            return None
        return granted(wanted.name, wanted.owner, fence, ttl, counted)

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.by_owner.get(grant.owner)
        if hold is None:  # another client's, or one whose lease has run out
            return await self._holds.free(grant.owner, self._keys.of(grant.name))
        return await self._holds.end(hold)

    async def withdraw(self, request: Request) -> None:
        if (hold := self._holds.by_owner.get(request.owner)) is not None:
            await self._holds.end(hold)

    # Inspect

    async def inspect(self, name: str) -> State:
        return await self._listing.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._listing.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._listing.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._agents, self._settings)
