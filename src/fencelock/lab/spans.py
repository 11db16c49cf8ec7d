"""Derive from a play what lasts: who waits, holds, believes wrongly, is frozen, cut off or down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judge import History
from ..judge.checkers.tenures import locks
from .document import Document

ROUND = 6


def spans_of(
    history: History,
    document: Document,
    states: Mapping[str, Sequence[Sequence[Any]]],
    marked: Sequence[tuple[str, str, float, float]],
) -> list[dict[str, Any]]:
    """All spans, in the order of their beginnings."""
    until = document.until
    found = [_span(lane, kind, begin, end) for lane, kind, begin, end in marked]
    for one in history.operations("acquire"):
        found.append(_span(one.client, "waits", one.begin, min(one.seen, until)))
    for lock in locks(history, "lock"):
        for tenure in lock.tenures:
            end = min(tenure.believed_until, until)
            found.append(_span(tenure.client, "holds", tenure.granted_at, end, tenure.fence))
            gone = _gone(tenure.client, tenure.granted_at, document.servers, states)
            if gone < end:
                found.append(_span(tenure.client, "believes wrongly", gone, end, tenure.fence))
    return sorted(found, key=lambda span: (span["from"], span["lane"], span["kind"]))


def _span(lane: str, kind: str, begin: float, end: float, fence: int = 0) -> dict[str, Any]:
    span: dict[str, Any] = {
        "lane": lane, "kind": kind, "from": round(begin, ROUND), "to": round(end, ROUND),
    }  # fmt: skip
    return span | ({"fence": fence} if fence else {})


def _gone(
    client: str,
    since: float,
    servers: Sequence[str],
    states: Mapping[str, Sequence[Sequence[Any]]],
) -> float:
    """When, after it was granted, no majority of the servers keeps the lock for a client."""
    moments = sorted(
        {since}
        | {at for name in servers for at, _ in states[name] if at > since}
        | {
            state["until"]
            for name in servers
            for _, state in states[name]
            if state["until"] is not None and state["until"] > since
        }
    )
    for moment in moments:
        keeps = sum(_keeps(client, moment, states[name]) for name in servers)
        if keeps <= len(servers) // 2:
            return moment
    return float("inf")


def _keeps(client: str, moment: float, states: Sequence[Sequence[Any]]) -> bool:
    state = [one for at, one in states if at <= moment][-1]
    is_over = state["until"] is not None and moment >= state["until"]
    return state["holder"] == client and not is_over
