"""The handlers of the calls of holders and waiters, over the engine.

The holder renews, not the service: a service that renews for its clients would hold locks for the
dead. A handler returns what happened, or raises a Problem or an error of ours; it never retries a
request whose outcome is unknown, because the client can, with the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote

from .._client.events import outcome_of
from .._client.policy import RENEWALS_PER_TTL
from .._client.validation import check_limit, check_meta, check_ttl
from ..errors import EngineError, FencelockError, OutcomeUnknown, UsageError
from ..model import (
    READERS_MAX,
    Busy,
    Grant,
    Request,
    Role,
    Share,
    counted_from,
    granted,
    queued,
    role_of,
)
from . import messages
from .access import Identity
from .call import Answer, Call, demand
from .events import Events
from .node import CALL_S, Node, owner_of
from .problems import Problem
from .ticket import Poll
from .tickets import AT_ONCE, KEEP_S, Tickets

T = TypeVar("T")

ID = re.compile(r"[A-Za-z0-9_-]{22,64}")
UNDELIVERED_S = 1.0  # a grant that is older may have been taken over through another node


class Service(NamedTuple):
    """The parts of a node that handlers use."""

    node: Node
    tickets: Tickets
    events: Events


async def acquire(service: Service, call: Call, body: messages.Acquire) -> Answer:
    """Acquire one lock: at once, after a wait, or later by the place that is kept."""
    node = service.node
    given = body.id or node.world.owner()
    request = _request(service, call, body, given)
    await node.take_over(call, request.owner)
    if body.safety == "correctness" and node.engine.traits.safety != "correctness":
        raise Problem("unsupported-safety")
    try:
        return await _acquire(service, call, body, request, given)
    except (Problem, EngineError, UsageError):
        raise  # nothing happened
    except BaseException:
        if body.id is None:
            # Nobody knows its id: nobody could send the call again or release the lock.
            service.tickets.leave_later(request, call.identity.name, nameless=True)
        raise


async def _acquire(
    service: Service, call: Call, body: messages.Acquire, request: Request, given: str
) -> Answer:
    """Acquire; an EngineError says that this call has left nothing behind."""
    node, tickets, _ = service
    try:
        answer = await node.in_turn(request.owner, partial(_first, service, request, body.attempt))
    except (FencelockError, Problem) as error:
        node.tally.refused(
            request, "unavailable" if isinstance(error, Problem) else outcome_of(error)
        )
        raise
    if isinstance(answer, Grant):
        if node.is_spent(request.owner, body.attempt):  # it was given back during the request
            await node.take_back(request, call)
            raise Problem("id-spent")
        if answer.valid_until <= node.world.now():
            node.tally.refused(request, "unavailable")
            await node.take_back_late(request, call)
        return _lease_answer(service, call, request, answer, given)
    if not body.wait and not body.keep:
        node.tally.refused(request, "busy", answer.holder)
        raise _busy(call, body.name, answer)
    node.refuse_spent(request.owner, body.attempt)  # it may have been withdrawn meanwhile
    poll = await tickets.begin(call, None, [queued(request)])
    try:
        grants = await tickets.granted(poll, call.received_at + body.wait)
    except BaseException:
        if body.id is None:
            await tickets.drop_all(poll, "unavailable")
        else:  # sent again with its id, it keeps its position
            await tickets.end(poll, [], failed=True)
        raise
    if grants:
        await tickets.end(poll, grants)
        return _lease_answer(service, call, request, grants[0], given)
    return await _not_granted(service, call, body, poll, given, answer)


async def _first(service: Service, request: Request, attempt: int) -> Grant | Busy:
    """Try once, unless the attempt was given back during other calls for this owner."""
    node, tickets, _ = service
    node.refuse_spent(request.owner, attempt)
    answer = await node.call_engine(node.engine.acquire, request)
    if isinstance(answer, Grant):
        await tickets.leave(request.owner)
    return answer


async def _not_granted(
    service: Service, call: Call, body: messages.Acquire, poll: Poll, given: str, first: Busy
) -> Answer:
    """End an acquire that got nothing; ``first`` is the first answer of the engine."""
    position = next((ticket.position for ticket in poll.tickets.values()), None)
    node, tickets, _ = service
    if poll.superseded:
        raise Problem("superseded")
    if node.draining:
        await tickets.end(poll, [])
        raise Problem("draining", retry_in=0.0)
    if body.keep:
        await tickets.end(poll, [], goes_on=True)
    else:
        await _leave(service, poll, nameless=body.id is None)
        raise _busy(call, body.name, Busy(0.0, position, holder=first.holder))
    queued = messages.Queued(name=body.name, id=given, position=position, keeps=KEEP_S)
    queued.holder = _words_of(call, body.name, first)
    return Answer(queued, 202)


async def _leave(service: Service, poll: Poll, nameless: bool) -> None:
    """End a poll, and withdraw its requests: in the background, if the engine does not confirm."""
    node, tickets, _ = service
    for request in await tickets.drop_all(poll, "cancelled" if poll.call.gone else "timeout"):
        try:
            await node.take_back(request, poll.call)
        except OutcomeUnknown:
            tickets.leave_later(request, poll.call.identity.name, nameless)
            raise


async def wait(service: Service, call: Call, body: messages.WaitFor) -> Answer:
    """Wait for several locks until one of them is granted."""
    node, tickets, _ = service
    asked = [(want, _request(service, call, want, want.id)) for want in body.wants]
    wanted = {request.owner: (want, request) for want, request in asked}
    for owner in wanted:
        await node.take_over(call, owner)
    for want, request in wanted.values():
        node.refuse_spent(request.owner, want.attempt)  # it may have been withdrawn meanwhile
    poll = await tickets.begin(call, body.inbox, [queued(r) for _, r in wanted.values()])
    try:
        grants = {g.owner: g for g in await tickets.granted(poll, call.received_at + body.hold)}
    except BaseException:
        await tickets.end(poll, [], failed=True)
        raise
    positions = {owner: ticket.position for owner, ticket in poll.tickets.items()}
    await tickets.end(poll, list(grants.values()), goes_on=poll.superseded)
    won = [
        (request, grants[owner], want.id)
        for owner, (want, request) in wanted.items()
        if owner in grants
    ]
    waiting = [
        messages.InQueue(want.name, want.id, positions.get(request.owner))
        for want, request in wanted.values()
        if request.owner not in grants
    ]
    leases = _leases(service, call, won)
    told = messages.Waited(granted=leases, waiting=waiting, superseded=poll.superseded)
    return Answer(told, undelivered=_make_undo(service, call, won))


Won: TypeAlias = Sequence[tuple[Request, Grant, str]]
"""Requests that were granted, each with its grant and the id by which its client knows it."""


def _lease_answer(
    service: Service, call: Call, request: Request, grant: Grant, given: str
) -> Answer:
    """Make the answer that hands over one lease."""
    won = [(request, grant, given)]
    (lease,) = _leases(service, call, won)
    return Answer(lease, headers=_fencing(lease), undelivered=_make_undo(service, call, won))


def _leases(service: Service, call: Call, won: Won) -> list[messages.Lease]:
    """Count and audit grants, and make the leases that their holders get."""
    node = service.node
    leases: list[messages.Lease] = []
    for _, grant, given in won:
        share = grant.share
        waited = counted_from(grant) - call.received_at
        node.access.holds(call.identity, grant.owner, grant.valid_until)
        node.tally.granted(grant, max(0.0, waited))
        facts = {"name": grant.name, "fence": grant.fence, "ttl": grant.ttl, "waited": waited}
        node.auditor.write("granted", call.identity.name, call.peer, facts)
        semaphore = share is not None and share.kind == "semaphore"
        leases.append(
            messages.Lease(
                name=grant.name,
                id=given,
                fence=grant.fence,
                ttl=grant.ttl,
                waited=waited,
                renew_in=grant.ttl / RENEWALS_PER_TTL,
                role=role_of(share),
                limit=share.limit if semaphore and share else None,
                slot=share.slot if share else None,
            )
        )
    return leases


def _make_undo(
    service: Service, call: Call, won: Won
) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Return a function that gives back leases that could not be handed over, or None."""
    node = service.node

    async def give_back() -> None:
        for request, grant, _ in won:
            node.access.holds_no_more(call.identity, grant.owner)
            node.tally.dropped(grant)
            if node.world.now() - grant.asked_at < UNDELIVERED_S:
                await node.try_to_take_back(request, call)

    return give_back if won and not call.resolves else None


async def renew(service: Service, call: Call, body: messages.Renew) -> Answer:
    """Extend leases, all in one call of the engine."""
    node = service.node
    now = node.world.now()
    grants = [_grant(call, lease, _ttl(service, call.identity, lease.ttl)) for lease in body.leases]
    answers = await node.call_engine(node.engine.renew, [g._replace(asked_at=now) for g in grants])
    renewals: list[messages.Renewal] = []
    for grant, answer in zip(grants, answers, strict=True):
        if isinstance(answer, Grant):
            node.access.holds(call.identity, grant.owner, answer.valid_until)
            node.tally.renewed(answer)
            waited = counted_from(answer) - call.received_at
            shorter = waited if waited < 0 else None
            renewals.append(messages.Renewal(True, ttl=answer.ttl, waited=shorter))
            continue
        node.access.holds_no_more(call.identity, grant.owner)
        node.tally.lost(grant, answer)
        facts = {"name": grant.name, "loss": answer.loss, "reason": answer.reason}
        node.auditor.write("lost", call.identity.name, call.peer, facts)
        renewals.append(messages.Renewal(False, loss=answer.loss, reason=answer.reason))
    return Answer(messages.Renewed(leases=renewals))


async def release(service: Service, call: Call, body: messages.Release) -> Answer:
    """Give locks back. Their ids are spent, so that a delayed acquire does not take them again.

    A delayed copy of a release, whose owner has made another attempt since, does nothing.
    """
    node, tickets, _ = service
    named = [(_grant(call, lease, lease.ttl), lease.attempt) for lease in body.leases]
    ended = [one for one in named if not node.is_superseded(one[0].owner, one[1])]
    copies = [node.is_spent(grant.owner, attempt) for grant, attempt in ended]
    for grant, attempt in ended:
        node.spend(grant.owner, attempt)
        await tickets.forget(grant.owner)
    freed = await _each(node, [partial(_released, node, grant) for grant, _ in ended])
    for (grant, _), was, again in zip(ended, freed, copies, strict=True):
        node.access.holds_no_more(call.identity, grant.owner)
        node.tally.released(grant)
        facts = {"name": grant.name, "fence": grant.fence, "released": was, "again": again}
        node.auditor.write("released", call.identity.name, call.peer, facts)
    rest = iter(freed)
    return Answer(
        messages.Released(leases=[messages.Freed(one in ended and next(rest)) for one in named])
    )


async def _released(node: Node, grant: Grant) -> bool:
    return await node.in_turn(grant.owner, lambda: node.call_engine(node.engine.release, grant))


async def withdraw(service: Service, call: Call, body: messages.Withdraw) -> Answer:
    """Take attempts back; a delayed copy, whose owner has made another since, does nothing."""
    node, tickets, _ = service
    ended: list[tuple[Request, int]] = []
    for want in body.wants:
        demand(call, "acquire", want.name)
        share = share_of(want.role, want.limit)
        owner = owner_of(call.identity.name, _id(want.id), want.name, share)
        if not node.is_superseded(owner, want.attempt):
            ended.append((Request(want.name, owner, 30.0, share=share), want.attempt))
    for request, attempt in ended:
        node.spend(request.owner, attempt)
        await tickets.forget(request.owner)
        node.access.holds_no_more(call.identity, request.owner)
    await _each(node, [partial(_withdrawn, node, request) for request, _ in ended])
    return Answer(messages.Withdrawn(withdrawn=len(body.wants)))


async def _withdrawn(node: Node, request: Request) -> bool:
    await node.in_turn(request.owner, lambda: node.call_engine(node.engine.withdraw, request))
    return True


# What handlers share.


def _request(
    service: Service, call: Call, body: messages.Acquire | messages.Want, given: str
) -> Request:
    """Check the body of a call, and make the engine's request of it."""
    node, identity = service.node, call.identity
    name = demand(call, "acquire", body.name)
    share = share_of(body.role, body.limit)
    owner = owner_of(identity.name, _id(given), name, share)
    if share is not None and not node.engine.traits.shared:
        raise Problem("unsupported", "This engine has no locks that several can hold")
    node.refuse_spent(owner, body.attempt)
    node.access.check_held(identity, owner, node.world.now())
    words = {**check_meta(body.meta), "identity": identity.name}
    ttl = _ttl(service, identity, body.ttl)
    return Request(name, owner, ttl, json.dumps(words), share=share)


def _ttl(service: Service, identity: Identity, ttl: float) -> float:
    most = min(service.node.limits.ttl_max, identity.quota.ttl_max or service.node.limits.ttl_max)
    if check_ttl(ttl) > most:
        raise Problem("invalid", f"ttl may be at most {most:g} seconds here, not {ttl:g}")
    return ttl


def _grant(call: Call, lease: messages.Held, ttl: float) -> Grant:
    """Make the grant of a lease that a client claims to have; the engine looks for its owner."""
    name = demand(call, "acquire", lease.name)
    share = share_of(lease.role, lease.limit)
    owner = owner_of(call.identity.name, _id(lease.id), name, share)
    if share is not None and share.kind == "semaphore":
        share = share._replace(slot=lease.slot)
    return granted(name, owner, lease.fence, check_ttl(ttl), 0.0, share)


def share_of(role: Role, limit: int | None) -> Share | None:
    """Return how much of a name a role requests: None for a lock, which has no shares."""
    if role == "semaphore":
        if limit is None:
            raise UsageError("a semaphore needs its limit")
        return Share("semaphore", 1, check_limit(limit))
    if limit is not None:
        raise UsageError("only a semaphore has a limit")
    if role == "lock":
        return None
    return Share("rwlock", 1 if role == "read" else READERS_MAX, READERS_MAX)


def _id(given: str) -> str:
    if not ID.fullmatch(given):
        raise UsageError("an id has 22 to 64 of the characters A-Z a-z 0-9 _ -")
    return given


def _busy(call: Call, name: str, busy: Busy) -> Problem:
    holder = _words_of(call, name, busy)
    look_in = max(busy.look_in, 0.0)
    return Problem("busy", retry_in=look_in, position=busy.position, holder=holder)


def _words_of(call: Call, name: str, busy: Busy) -> messages.Words | None:
    """Return the holder's meta, if the caller may see it; that of another program is None."""
    if not busy.holder or not call.identity.may("observe", name):
        return None
    try:
        words: object = json.loads(busy.holder)
    except ValueError:
        return None
    return cast("messages.Words", words) if isinstance(words, dict) else None


def _fencing(lease: messages.Lease) -> tuple[tuple[str, str], ...]:
    """Make the headers that a guard of HTTP services reads: see ``fencelock.guards.http``."""
    name = lease.name if lease.slot is None else f"{lease.name}#{lease.slot}"
    headers = (("Fencing-Token", str(lease.fence)), ("Fencing-Name", quote(name, safe="")))
    return (*headers, ("Fencing-Role", "read")) if lease.role == "read" else headers


async def _each(node: Node, thunks: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls of the engine side by side; if one fails, raise that: they can be repeated."""
    answers: list[T] = []
    for first in range(0, len(thunks), AT_ONCE):
        some = thunks[first : first + AT_ONCE]
        if len(some) == 1:
            answers.append(await some[0]())
            continue
        for answer in await node.world.gather(some, node.world.now() + 2 * CALL_S):
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                raise OutcomeUnknown
            answers.append(answer)
    return answers
