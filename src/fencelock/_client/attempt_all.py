"""Acquire several locks in one round trip, where the engine can: all of them, or nothing.

It is one attempt with an owner for each name. Without a reply all of them are in doubt, and each is
taken back as a single attempt would be; then nothing is held, and the caller may go on with one
name after another.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from .. import observe
from ..errors import FencelockError, OutcomeUnknown
from ..model import Busy, Grant, Request, Together, wished
from ..world import GRACE_S, NO_LIMIT
from .events import Attempt, emit_refused, outcome_of, timed
from .hold_state import HasHold, HoldState
from .lock_options import LockSpec
from .pending import grace, unconfirmed

if TYPE_CHECKING:
    from .client import Core

    L = TypeVar("L", bound=HasHold)


def is_plain(spec: LockSpec) -> bool:
    """Return whether a lock has no option that rules out acquiring it together with others."""
    return not (spec.reentrant or spec.key is not None or spec.share or spec.linger)


async def attempt_all(
    core: Core[L], specs: Sequence[LockSpec], timeout: float | None
) -> list[L] | tuple[str, Busy] | None:
    """Acquire all at once, or return the name that is busy; None where each needs its own request.

    The engine is called once and queues nothing: the timeout only limits that call.
    """
    world = core.world
    started = world.now()
    limit = NO_LIMIT if timeout is None else started + timeout + GRACE_S
    await core.ready_by(limit)
    core.demand(specs[0])
    waitlist, pending = core.waitlist, core.pending
    about = core.about.text(specs[0].meta)
    requests = [_request(spec, world.owner(), about) for spec in specs]
    leases: list[L] = []
    attempt = Attempt()
    attempt.group, attempt.at_once = specs[0].group, False
    try:
        for request in requests:
            reference = weakref.ref(attempt, waitlist.gone.append)
            waitlist.attempts[request.owner] = (request, reference)
        if waitlist.gone:
            waitlist.adopt(pending)
        answer = await _ask(core, requests, limit)
        if isinstance(answer, list):
            for spec, grant in zip(specs, answer, strict=True):
                leases.append(_lease(core, spec, grant, about))
            if waitlist.closed:
                waitlist.check()
            for lease in leases:
                core.keeper.add(_hold(lease))
            if observe.subscribers:
                for lease in leases:
                    observe.emit(_hold(lease).acquired(world.now(), started, attempt))
        elif answer is not None and timeout == 0 and observe.subscribers:
            _emit_refused(core, requests, attempt, "busy", started)
        for request in requests:
            waitlist.attempts.pop(request.owner, None)
        return leases if isinstance(answer, list) else answer
    except BaseException as error:
        if leases or not isinstance(error, FencelockError):
            waited = any(request.owner not in waitlist.attempts for request in requests)
            until = world.now() if waited else grace(world, limit)  # one grace, not two
            await world.shield(_undo_all(core, requests, leases, until))
        for request in requests:
            waitlist.attempts.pop(request.owner, None)
        if observe.subscribers:
            _emit_refused(core, requests, attempt, outcome_of(error), started)
        raise
    finally:
        del attempt  # an attempt that has not ended by now is taken back


def _request(spec: LockSpec, owner: str, about: str) -> Request:
    ttl = spec.ttl if spec.max_hold is None else min(spec.ttl, spec.max_hold)
    return wished(spec.name, owner, ttl, about, False, None)


async def _ask(core: Core[L], requests: Sequence[Request], limit: float) -> Together:
    """Call the engine once; without a reply, or if the grants have expired, take all back."""
    world = core.world
    try:
        with world.until(limit):
            if observe.callers:
                answer = await timed(world, core.engine, core.engine.acquire_all, requests)
            else:
                answer = await core.engine.acquire_all(requests)
    except OutcomeUnknown as error:
        await _take_back(core, requests, limit, error)
        return None
    if isinstance(answer, list) and min(grant.valid_until for grant in answer) <= world.now():
        await _take_back(core, requests, limit, "the answer came too late")
        return None
    return answer


async def _take_back(core: Core[L], requests: Sequence[Request], limit: float, why: object) -> None:
    """Take all back, the first one first: an engine may order only that one behind the request that
    is under way, and the others follow it."""
    until = grace(core.world, limit)
    left = [
        request
        for request in requests
        if not await core.pending.withdraw(
            request, until, core.waitlist.attempts, doubted=True, watched=False
        )
    ]
    if left:
        raise unconfirmed(left[0], why)


async def _undo_all(
    core: Core[L], requests: Sequence[Request], leases: Sequence[L], limit: float
) -> None:
    """Take back an attempt that has failed, for whatever reason."""
    for index, request in enumerate(requests):
        hold = _hold(leases[index]) if index < len(leases) else None
        await core.undo(request, hold, limit)


def _emit_refused(
    core: Core[L], requests: Sequence[Request], attempt: Attempt, outcome: str, started: float
) -> None:
    """Emit, for each name, that it was not granted: one name that is busy refuses all."""
    for request in requests:
        emit_refused(core.engine, request, attempt, outcome, core.world.now() - started)


def _lease(core: Core[L], spec: LockSpec, grant: Grant, about: str) -> L:
    until = None if spec.max_hold is None else grant.asked_at + spec.max_hold
    label = (core.label[0], spec.group)
    hold = HoldState(grant, about, spec.renew, until, spec.on_lost, core.generation, label)
    return core.make_lease(core, hold)


def _hold(lease: HasHold) -> HoldState:
    return lease._hold  # pyright: ignore[reportPrivateUsage]
