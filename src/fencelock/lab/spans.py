"""The spans of a play: when each lane waits, holds, believes wrongly, is frozen, cut or down."""

from __future__ import annotations

from bisect import bisect_right
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
    keeping: Sequence[str],
    marked: Sequence[tuple[str, str, float, float]],
) -> list[dict[str, Any]]:
    """Return all spans, in the order of their beginnings; ``keeping`` names the servers that keep
    the lock."""
    until, keepers = document.until, _Keepers(keeping, states)
    found = [_span(lane, kind, begin, end) for lane, kind, begin, end in marked]
    for one in history.operations("acquire"):
        found.append(_span(one.client, "waits", one.begin, min(one.seen, until)))
    for lock in locks(history, "lock"):
        for tenure in lock.tenures:
            end = min(tenure.believed_until, until)
            found.append(_span(tenure.client, "holds", tenure.granted_at, end, tenure.fence))
            gone = keepers.gone(tenure.client, tenure.granted_at)
            if gone < end:
                found.append(_span(tenure.client, "believes wrongly", gone, end, tenure.fence))
    return sorted(found, key=lambda span: (span["from"], span["lane"], span["kind"]))


def _span(lane: str, kind: str, begin: float, end: float, fence: int = 0) -> dict[str, Any]:
    span: dict[str, Any] = {
        "lane": lane, "kind": kind, "from": round(begin, ROUND), "to": round(end, ROUND),
    }  # fmt: skip
    return span | ({"fence": fence} if fence else {})


class _Keepers:
    """The client for which a majority of the servers keeps the lock, at every moment."""

    def __init__(self, servers: Sequence[str], states: Mapping[str, Sequence[Sequence[Any]]]):
        self._states = [states[name] for name in servers]
        self._times = [[at for at, _ in states[name]] for name in servers]
        ends = {state.get("until") for seen in self._states for _, state in seen}
        self._moments: list[float] = sorted(
            {*(ends - {None}), *(at for times in self._times for at in times)}
        )

    def gone(self, client: str, since: float) -> float:
        """Return when, from a moment on, no majority keeps the lock for a client any more."""
        for moment in [since, *self._moments[bisect_right(self._moments, since) :]]:
            keeps = sum(self._keeps(client, moment, number) for number in range(len(self._states)))
            if keeps <= len(self._states) // 2:
                return moment
        return float("inf")

    def _keeps(self, client: str, moment: float, number: int) -> bool:
        state = self._states[number][bisect_right(self._times[number], moment) - 1][1]
        until = state.get("until")
        is_over = until is not None and moment >= until
        return state["holder"] == client and not is_over
