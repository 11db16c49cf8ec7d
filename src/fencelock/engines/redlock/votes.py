"""Decode the answers of a Redlock's nodes, and make the errors of too few answers; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from typing import Any

from ...errors import Misconfigured, OutcomeUnknown, Unavailable
from ...model import Gone, Holding
from ..redis.errors import foreign
from .fanout import Broadcast
from .quorum import Holder, NodeView, Refusal


def anything(answer: Any) -> bool:
    return True


def is_one(answer: Any) -> bool:
    return bool(answer == 1)


def listed(answer: Any) -> list[Any]:
    """Return an answer that is a list; an empty list for an error or no answer."""
    return answer if answer.__class__ is list else []


def is_grant(answer: Any) -> bool:
    return answer.__class__ is list and answer[:1] == [1]


def is_refusal(answer: Any) -> bool:
    return answer.__class__ is list and answer[:1] == [0]


def is_open(answer: Any) -> bool:
    """Whether the request may still be served, or may have been."""
    return answer is None or isinstance(answer, OutcomeUnknown)


def is_definite(sent: Broadcast) -> bool:
    """Whether each node has answered, or certainly got nothing."""
    return not any(map(is_open, sent.answers))


def refusal(answer: Sequence[Any]) -> Refusal:
    _, left_ms, holder, meta = answer
    left = left_ms / 1000 if left_ms >= 0 else inf
    return Refusal(left, holder, meta.decode() or json.dumps(foreign(left_ms)))


def node_view(answer: Sequence[Any]) -> NodeView:
    holder, left_ms, record, clock_ms = answer
    text = (record or b"").decode()
    return NodeView(
        holder or b"", inf if left_ms == -1 else max(left_ms, 0) / 1000, text, int(clock_ms)
    )


def gone(reason: str) -> Gone:
    if reason:
        return Gone("revoked", reason)
    return Gone("expired", "its key is gone from a majority of the nodes")


def holding(name: str, holder: Holder) -> Holding:
    """Return the holder of a name, with the record that it wrote, if it did."""
    records = [_record(view, holder.value.decode("utf-8", "replace")) for view in holder.views]
    known = [record for record in records if record is not None]
    left = 0.0 if holder.remaining == inf else holder.remaining
    if not known:
        said = foreign(-1 if holder.remaining == inf else 0)
        return Holding(name, 0, left, 0.0, left, said)
    fences = [record[0] for record in known]
    fence = max(fences, key=lambda one: (fences.count(one), one))
    _, ttl, age, meta = next(record for record in known if record[0] == fence)
    return Holding(name, fence, ttl, age, left, json.loads(meta))


def _record(view: NodeView, owner: str) -> tuple[int, float, float, str] | None:
    fields = view.record.split(" ", 5)
    if len(fields) < 6 or fields[1] != owner:
        return None
    fence, _, _, ttl_ms, since, meta = fields
    return int(fence), int(ttl_ms) / 1000, max(0, view.clock_ms - int(since)) / 1000, meta


def too_few(sent: Broadcast, need: int, state: str, *, happened: bool) -> Exception:
    """Return the error for a broadcast that too few nodes have answered."""
    errors = [answer for answer in sent.answers if isinstance(answer, Exception)]
    answered = sum(answer is not None for answer in sent.answers) - len(errors)
    for error in errors:
        if isinstance(error, Misconfigured) and not happened:
            return type(error)(str(error))  # a copy: many threads may raise the same error
    heard = f"{answered} of {len(sent.answers)} nodes answered"
    asked = f" and {need} are needed" if answered < need else ", some of them too late"
    why = f" ({errors[0]})" if errors else ""
    text = f"{heard}{asked}{why}; {state}. See that the nodes run and can be reached"
    return OutcomeUnknown(text) if happened else Unavailable(text)
