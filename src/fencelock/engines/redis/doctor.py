"""Diagnose a Redis server: which settings would break a promise, for ``fencelock doctor``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from ...errors import EngineError, OutcomeUnknown
from ...model import Finding
from ..doctor import clock, clock_offset
from .script_runner import ScriptRunner
from .settings import Node, where
from .wire.connection import Word

OLDEST = (6, 2)
SETTINGS = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save")

Facts = dict[str, str]


class Command(Protocol):
    """Runs a command at one server."""

    def __call__(self, *words: Word, node: Node) -> Awaitable[Any]: ...


async def diagnose(
    runner: ScriptRunner, replicas: int, wall_us: Callable[[], int]
) -> list[Finding]:
    """Look at each server that serves keys."""
    await runner.topology.find("")
    findings: list[Finding] = []
    for node in runner.topology.nodes():
        facts, config, ahead_s = await facts_of(node, runner.command, wall_us)
        findings += judge(where(node), facts, config, ahead_s, replicas)
    return findings


async def facts_of(
    node: Node, command: Command, wall_us: Callable[[], int]
) -> tuple[Facts, Facts | None, float]:
    """Read a server's INFO, its settings, and how many seconds its clock is ahead of ours."""
    info = (await command("INFO", node=node)).decode("utf-8", "replace")
    lines = (line.partition(":") for line in info.splitlines())
    facts = {key: value for key, colon, value in lines if colon}
    config = await _config(node, command)
    before = wall_us()
    seconds, micros = await command("TIME", node=node)
    server_us = int(seconds) * 1_000_000 + int(micros)
    return facts, config, clock_offset(server_us, before, wall_us())


async def _config(node: Node, command: Command) -> Facts | None:
    """Read the settings that matter; None where the server does not let us."""
    found: Facts = {}
    for setting in SETTINGS:
        try:
            reply = await command("CONFIG", "GET", setting, node=node)
        except (EngineError, OutcomeUnknown):
            return None
        texts = [word.decode("utf-8", "replace") for word in reply]
        found.update(zip(texts[::2], texts[1::2], strict=True))
    return found


def judge(
    server: str, facts: Facts, config: Facts | None, ahead_s: float, replicas: int
) -> list[Finding]:
    """Return the findings for one server, from its INFO and its settings."""
    return [
        *_version(server, facts),
        *_memory(server, facts, config),
        *_persistence(server, config),
        *_replication(server, facts, replicas),
        clock(ahead_s, f"the clock of {server}", "warning"),
    ]


def _version(server: str, facts: Facts) -> Iterator[Finding]:
    product = "Valkey" if "valkey_version" in facts else "Redis"
    text = facts.get("valkey_version") or facts.get("redis_version", "0.0")
    number = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if number < OLDEST:
        advice = "upgrade to Redis 6.2 or newer, or to Valkey"
        yield Finding("problem", "version", f"{server} is {product} {text}, too old", advice)
    else:
        yield Finding("ok", "version", f"{server} is {product} {text}")


def _memory(server: str, facts: Facts, config: Facts | None) -> Iterator[Finding]:
    policy = facts.get("maxmemory_policy") or (config or {}).get("maxmemory-policy", "")
    limit = int(facts.get("maxmemory") or (config or {}).get("maxmemory", "0") or 0)
    if limit and policy != "noeviction":
        yield Finding(
            "problem",
            "eviction",
            f"{server} may drop any lock when it runs out of memory (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction, or keep locks on a server without a cache",
        )
    elif policy != "noeviction":
        yield Finding(
            "note",
            "eviction",
            f"{server} would drop locks if it had a memory limit (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction before you set maxmemory",
        )
    else:
        yield Finding("ok", "eviction", f"{server} drops no lock to save memory")


def _persistence(server: str, config: Facts | None) -> Iterator[Finding]:
    if config is None:
        text = f"{server} does not let us read its configuration: whether locks survive is unknown"
        yield Finding("note", "persistence", text, "allow CONFIG GET to the user, or look yourself")
    elif config.get("appendonly") != "yes":
        yield Finding(
            "warning",
            "persistence",
            f"{server} forgets all locks when it restarts: holders then overlap until they renew",
            "set appendonly yes; the fence grows in either case",
        )
    elif config.get("appendfsync") != "always":
        text = f"{server} may forget the locks of its last second when its machine dies"
        yield Finding("note", "persistence", text, "set appendfsync always if that matters")
    else:
        yield Finding("ok", "persistence", f"{server} writes each lock to its disk")


def _replication(server: str, facts: Facts, replicas: int) -> Iterator[Finding]:
    if facts.get("role") != "master":
        advice = "connect to the primary, or by redis+sentinel://"
        yield Finding("problem", "replication", f"{server} is a replica and grants nothing", advice)
        return
    connected = int(facts.get("connected_slaves", "0"))
    if connected and not replicas:
        yield Finding(
            "warning",
            "replication",
            f"{server} has {connected} replica(s), and a failover can forget the last grants",
            f"connect with replicas={connected}, so that a grant waits for them",
        )
    elif replicas > connected:
        yield Finding(
            "problem",
            "replication",
            f"{server} has {connected} replica(s) and replicas={replicas} is demanded",
            "no lock can be granted: connect more replicas or demand fewer",
        )
    else:
        yield Finding("ok", "replication", f"{server} is a primary with {connected} replica(s)")
