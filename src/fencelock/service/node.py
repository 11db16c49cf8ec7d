"""One node of the service: its engine, and what all handlers share.

A node keeps nothing that matters. What it remembers only saves work or refuses copies: ids whose
locks were given back, which calls poll, whether the engine has answered lately.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar

from .. import observe
from .._client.acquire import too_late
from .._client.events import timed
from ..engine import Engine
from ..errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ..model import Finding, Request, Share
from ..world import Signal, World, sleep
from .access import ANONYMOUS, Access
from .audit import FailedLogins
from .call import Call
from .observed_names import ObservedNames
from .problems import Problem, broken
from .tally import Tally

P = ParamSpec("P")
R = TypeVar("R")

CALL_S = 10.0  # the longest that one call of the engine may take
SPENT_MAX = 10_000
PROBE_MIN_S, PROBE_MAX_S = 0.1, 5.0
LATELY_S = 5.0  # an engine that has answered so recently is not probed
DIAGNOSIS_S = 30.0  # within which the engine is not examined again
TICK_S = 0.5
STALL_S = 2.0  # a tick that comes so late was kept from running: the node was frozen
PROBED = "fencelock-service-probe"


class Limits(NamedTuple):
    """The most that a node takes on."""

    ttl_max: float = 3600.0
    waiting_max: int = 10_000
    in_flight_max: int = 1_000
    body_max: int = 2_000_000


class Auditor(Protocol):
    """The audit, as a node writes it."""

    @property
    def writable(self) -> bool: ...

    def write(self, event: str, identity: str, peer: str, facts: Mapping[str, object]) -> None:
        """Write one line; a failure is remembered in ``writable``, never raised."""
        ...


class Node:
    """What the handlers of one process share."""

    def __init__(
        self, world: World, engine: Engine, access: Access, auditor: Auditor, limits: Limits
    ) -> None:
        self.world = world
        self.engine = engine
        self.access = access
        self.auditor = auditor
        self.failed_logins = FailedLogins(self._audit_logins)
        self.limits = limits
        self.tally = Tally(world, engine)
        self.observed_names = ObservedNames(world, engine)
        self.draining = False
        self.in_flight = 0
        self.log: Callable[[str], None] = lambda _: None
        self._spent: dict[str, int] = {}
        """By owner, its last attempt that is over."""
        self._begun: dict[str, int] = {}
        """By owner, its last attempt, if it has made more than one."""
        self._undos: dict[str, Signal] = {}
        """By owner, the end of a withdrawal under way: no call for this owner begins before."""
        self._newest_call: dict[str, Call] = {}
        """By owner, the newest call for it, while that call is under way."""
        self._turns: dict[str, Signal] = {}
        """By owner, the end of the engine's present call for it."""
        self._failures = 0
        self._probe_at = 0.0
        self.answered_at = world.now()
        self._diagnosis: tuple[float, list[Finding]] | None = None
        self._ticked_at = self._frozen_at = world.now()
        self._frozen_at -= STALL_S

    def _audit_logins(self, peer: str, times: int) -> None:
        facts = {"problem": "unauthorized", "times": times}
        self.auditor.write("refused", ANONYMOUS.name, peer, facts)

    # The engine.

    async def call_engine(
        self, verb: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call the engine once, for a bounded time. No call is repeated here.

        After a call that could not be served all others are refused, except one now and then, which
        is sent as a probe.
        """
        now = self.world.now()
        if self._failures:
            if now < self._probe_at:
                raise Problem("engine-unavailable", retry_in=self._probe_at - now)
            self._probe_at = now + self._back_off()
        if self.in_flight >= self.limits.in_flight_max:
            raise Problem("overloaded", retry_in=1.0)
        self.in_flight += 1
        try:
            with self.world.until(now + CALL_S):
                if observe.callers:
                    answer = await timed(self.world, self.engine, verb, *args, **kwargs)
                else:
                    answer = await verb(*args, **kwargs)
        except Unavailable as error:
            self._failures += 1
            self._probe_at = self.world.now() + self._back_off()
            self.log(f"the engine cannot serve: {error}")
            raise
        except Exception as error:
            if (unknown := broken(error)) is None:
                raise
            raise unknown from error
        finally:
            self.in_flight -= 1
        self._failures = 0
        self.answered_at = self.world.now()
        return answer

    def _back_off(self) -> float:
        return float(min(PROBE_MIN_S * 2 ** min(self._failures, 10), PROBE_MAX_S))

    async def in_turn(self, owner: str, work: Callable[[], Awaitable[R]]) -> R:
        """Serialize the work for an owner: a call may come twice, and beside a poll.

        An engine serves an owner that repeats a request, but need not serve two at once.
        """
        while (other := self._turns.get(owner)) is not None:
            await self.world.wait(other, None)
        done = self._turns[owner] = self.world.signal()
        try:
            return await work()
        finally:
            del self._turns[owner]
            done.set()

    async def probe(self) -> bool:
        """Return whether the engine answers, or has lately."""
        if self.world.now() - self.answered_at > LATELY_S or self._failures:
            try:
                await self.call_engine(self.engine.inspect, PROBED)
            except (FencelockError, Problem):
                return False
        return True

    async def diagnosis(self) -> tuple[float, list[Finding]]:
        """Return how many seconds ago the engine was examined, and what it found."""
        now = self.world.now()
        if self._diagnosis is None or now - self._diagnosis[0] > DIAGNOSIS_S:
            self._diagnosis = (now, await self.call_engine(self.engine.diagnose))
        at, findings = self._diagnosis
        return self.world.now() - at, findings

    # Ids.

    def spend(self, owner: str, attempt: int) -> None:
        """Remember an id whose lock was given back: a delayed copy of its acquire is refused."""
        self._spent[owner] = max(self._spent.pop(owner, 0), attempt)
        if len(self._spent) > SPENT_MAX:
            self._spent.pop(next(iter(self._spent)))

    def is_spent(self, owner: str, attempt: int) -> bool:
        return self._spent.get(owner, -1) >= attempt

    def refuse_spent(self, owner: str, attempt: int) -> None:
        """Refuse an attempt that is over, or remember that it has begun."""
        if self.is_spent(owner, attempt):
            raise Problem("id-spent")
        if attempt > self._begun.get(owner, 0):
            self._begun[owner] = attempt
            if len(self._begun) > SPENT_MAX:
                self._begun.pop(next(iter(self._begun)))

    def is_superseded(self, owner: str, attempt: int) -> bool:
        """Return whether a later attempt has begun: a call that ends this one is a delayed copy."""
        return attempt < self._begun.get(owner, 0)

    # Undoing.

    async def take_over(self, call: Call, owner: str) -> None:
        """Make a call the newest one for an owner, and wait for the end of withdrawals under way.

        An older call with the same id withdraws nothing from then on: what it would give back may
        be what the newer one was granted.
        """
        older = self._newest_call.get(owner)
        if older is not None and older is not call:
            older.taken_over.add(owner)
        self._newest_call[owner] = call
        call.owners.add(owner)
        while (undo := self._undos.get(owner)) is not None:
            await self.world.wait(undo, None)

    def finish(self, call: Call) -> None:
        """Note that a call was answered, and what it could not hand over was given back."""
        for owner in call.owners:
            if self._newest_call.get(owner) is call:
                del self._newest_call[owner]

    def has_call(self, owner: str) -> bool:
        return owner in self._newest_call

    @contextmanager
    def undoing(self, owner: str) -> Generator[None, None, None]:
        """Have new calls for this owner wait until the end of the block."""
        done = self._undos[owner] = self.world.signal()
        try:
            yield
        finally:
            done.set()
            if self._undos.get(owner) is done:
                del self._undos[owner]

    async def take_back(self, request: Request, call: Call | None = None) -> bool:
        """Leave the queue and release the lock; return False if that is not for this node to do.

        A node that was frozen withdraws nothing: its client may have gone to another node with the
        same id, and holds the lock there. Nor does a call that was taken over by a newer one.

        There is something to take back, so without the engine's confirmation the outcome of the
        attempt is unknown: that the withdrawal was not sent does not undo it.
        """
        try:
            with self.undoing(request.owner):
                return await self.in_turn(request.owner, lambda: self._undo(request, call))
        except (EngineError, Problem) as error:
            raise OutcomeUnknown(
                f"the request for {request.name!r} was not taken back ({error}): it may be granted"
            ) from error

    async def take_back_late(self, request: Request, call: Call) -> NoReturn:
        """Take back a grant whose answer took longer than its ttl, and raise what follows.

        Nothing is taken back behind the back of a client that asks again.
        """
        if call.resolves or not await self.take_back(request, call):
            raise OutcomeUnknown(f"the engine's answer for {request.name!r} came after the ttl")
        raise too_late(request)

    async def _undo(self, request: Request, call: Call | None = None) -> bool:
        is_other = call is not None and request.owner in call.taken_over
        if is_other or self.stalled():
            return False
        await self.call_engine(self.engine.withdraw, request)
        return True

    async def try_to_take_back(self, request: Request, call: Call | None = None) -> None:
        """Withdraw a request, and log a failure: no caller is left that could get the error."""
        try:
            await self.take_back(request, call)
        except FencelockError as error:
            self.log(f"a request was not taken back, and ends by itself: {error}")

    async def leave(self, request: Request, whole: bool) -> None:
        """Stop waiting for a request, within the turn of its owner.

        It is withdrawn as a ``whole`` where no other node can have its owner's position, or where
        the first in the queue holds the lock by being there.
        """
        engine = self.engine
        if whole or engine.first_holds or not engine.traits.portable:
            await self._undo(request)
        else:
            await self.call_engine(engine.leave_queue, request)

    # Life.

    async def tick(self) -> None:
        """Do what is due at each tick; notice when the process was kept from running."""
        while not self.draining:
            now = self.world.now()
            if now - self._ticked_at > STALL_S:
                self._frozen_at = now
            self._ticked_at = now
            self.tally.sweep()
            self.failed_logins.flush(now)
            await sleep(self.world, TICK_S)

    def stalled(self) -> bool:
        """Return whether this process was frozen a moment ago."""
        now = self.world.now()
        return now - self._ticked_at > STALL_S or now - self._frozen_at < STALL_S


def owner_of(identity: str, given: str, name: str, share: Share | None) -> str:
    """Return the engine's owner for an id of a client: an id of another identity is of no use.

    An id that is used for two names is two owners, so that neither counts as the other.
    """
    kind = "lock" if share is None else share.kind
    return hashlib.sha256("\0".join((identity, given, kind, name)).encode()).hexdigest()[:32]
