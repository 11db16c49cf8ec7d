"""Diagnose the nodes of a Redlock: each by itself, as ``redis`` does, and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import EngineError, OutcomeUnknown
from ...model import Finding
from ..doctor import clocks
from ..redis.doctor import Facts, facts_of, judge
from ..redis.settings import Node, Settings, where
from ..redis.wire.connection import Word, packed
from .fanout import Fanout
from .quorum import majority
from .votes import anything


async def diagnose(
    fanout: Fanout[Any],
    settings: Settings,
    until: Callable[[], float],
    wall_us: Callable[[], int],
) -> list[Finding]:
    """Return the findings about each node, and about all nodes together."""

    async def command(*words: Word, node: Node) -> Any:
        index = settings.nodes.index(node)
        sent = await fanout.send(packed(*words), anything, until(), only={index})
        answer = sent.answers[index]
        if answer is None:
            raise OutcomeUnknown("no answer in time")
        if isinstance(answer, Exception):
            raise answer
        return answer

    findings = list(_count(len(settings.nodes)))
    ahead: dict[str, float] = {}
    for node in settings.nodes:
        name = where(node)
        try:
            facts, config, ahead[name] = await facts_of(node, command, wall_us)
        except (EngineError, OutcomeUnknown) as error:
            text = f"{name} does not serve ({error})"
            findings.append(Finding("warning", "nodes", text, "bring the node back"))
            continue
        findings += judge(name, facts, config, ahead[name], 0)
        findings += _restart(name, config)
    return [*findings, *clocks(ahead)]


def _count(count: int) -> Iterator[Finding]:
    spare = count - majority(count)
    text = f"{count} node(s): {majority(count)} must agree, {spare} may fail"
    if count < 3:
        advice = "use three nodes or five; for one server, redis:// does more"
        yield Finding("warning", "nodes", text, advice)
    elif count % 2 == 0:
        advice = f"{count - 1} nodes survive as many failures, and split votes are rarer"
        yield Finding("note", "nodes", text, advice)
    else:
        yield Finding("ok", "nodes", text)


def _restart(name: str, config: Facts | None) -> Iterator[Finding]:
    if config is not None and config.get("appendonly") != "yes":
        yield Finding(
            "note",
            "restart",
            f"{name} forgets its votes in a restart, while a holder still relies on them",
            "have it start no sooner than the longest ttl after it stopped (restart_delay)",
        )
