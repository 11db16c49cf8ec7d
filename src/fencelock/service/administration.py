"""The handlers of the calls by which people see who holds what, and revoke it."""

from __future__ import annotations

from .. import __version__
from .._client.validation import check_prefix, check_reason
from ..errors import UsageError
from . import messages
from .call import Answer, Call, demand
from .handlers import Service
from .messages import holder_of
from .problems import Problem

PAGE_MAX = 1_000
EVENT_STREAM = "text/event-stream"


async def revoke(service: Service, call: Call, body: messages.Revoke) -> Answer:
    """Take a lock from its holder; nothing is revoked that cannot be written down first."""
    node = service.node
    name = demand(call, "revoke", body.name)
    reason = check_reason(body.reason)
    facts = {"name": name, "reason": reason}
    node.auditor.write("revoke", call.identity.name, call.peer, facts)
    if not node.auditor.writable:
        raise Problem("audit-unwritable", retry_in=5.0)
    state = await node.call_engine(node.engine.inspect, name)
    revoked = await node.call_engine(node.engine.revoke, name, reason)
    node.auditor.write("revoked", call.identity.name, call.peer, {**facts, "revoked": revoked})
    if revoked:
        node.tally.revoked(name, reason)
    holder = holder_of(state.holders[0]) if revoked and state.holders else None
    return Answer(messages.Revoked(revoked=revoked, holder=holder))


async def locks(service: Service, call: Call, _: None) -> Answer:
    """List holders by name, those that this identity may observe, a page at a time."""
    node, identity = service.node, call.identity
    if not identity.may_somewhere("observe"):
        raise Problem("forbidden")
    _refuse_unknown(call, {"prefix", "after", "limit"})
    prefix, after = check_prefix(call.query.get("prefix", "")), call.query.get("after", "")
    most = _page(call.query.get("limit"))
    found = [
        holding
        for holding in await node.call_engine(node.engine.scan, prefix)
        if holding.name > after and identity.may("observe", holding.name)
    ]
    found.sort(key=lambda holding: holding.name)
    end = most
    while 0 < end < len(found) and found[end].name == found[end - 1].name:
        end += 1  # holders of one name stay on one page
    last = found[end - 1].name if end < len(found) else None
    return Answer(messages.Locks(locks=[holder_of(one) for one in found[:end]], next=last))


async def events(service: Service, call: Call, _: None) -> Answer:
    """Stream what happens to the locks that this identity may observe, as Server-Sent Events."""
    if not call.identity.may_somewhere("observe"):
        raise Problem("forbidden")
    _refuse_unknown(call, {"prefix", "queue"})
    prefix, queue = check_prefix(call.query.get("prefix", "")), call.query.get("queue")
    if queue is not None:
        demand(call, "observe", queue)
    stream = await service.events.open(call, prefix, queue, call.last_event)
    return Answer(None, headers=(("Content-Type", EVENT_STREAM),), stream=stream)


async def doctor(service: Service, call: Call, _: None) -> Answer:
    """Tell what the engine noticed about its surroundings, to those who may observe all names."""
    if not call.identity.may("observe", ""):
        raise Problem("forbidden")
    ago, findings = await service.node.diagnosis()
    told = [messages.Finding(*finding) for finding in findings]
    return Answer(messages.Diagnosis(findings=told, ago=ago))


async def inspect(service: Service, call: Call, body: messages.Inspect) -> Answer:
    """Show who holds a lock and who waits."""
    name = demand(call, "observe", body.name)
    state = await service.node.call_engine(service.node.engine.inspect, name)
    return Answer(
        messages.Inspection(
            name=name,
            holders=[holder_of(one) for one in state.holders],
            waiters=[messages.Waiter(w.age, dict(w.meta), w.role) for w in state.waiters],
            limit=state.limit,
        )
    )


async def about(service: Service, call: Call, _: None) -> Answer:
    """Tell what this service promises, its limits, and who asks."""
    node, identity = service.node, call.identity
    traits = node.engine.traits._asdict()
    quota = {k: float(v) for k, v in identity.quota._asdict().items() if v is not None}
    limits = {k: float(v) for k, v in node.limits._asdict().items()}
    return Answer(
        messages.About(
            version=__version__,
            engine=node.engine.schemes[0],
            traits={
                **traits,
                "session_bound": node.engine.session_bound,
                "first_holds": node.engine.first_holds,
            },
            limits={**limits, **quota, "wait_max": messages.WAIT_MAX_S},
            identity=identity.name,
            rights=[{"prefix": r.prefix, "verbs": list(r.verbs)} for r in identity.rights],
        )
    )


def _refuse_unknown(call: Call, known: set[str]) -> None:
    unknown = call.query.keys() - known
    if unknown:
        raise Problem("malformed", f"There is no parameter {min(unknown)!r:.80}")


def _page(text: str | None) -> int:
    if text is None:
        return PAGE_MAX
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= PAGE_MAX:
        raise UsageError(f"limit is a whole number from 1 to {PAGE_MAX}")
    return int(text)
