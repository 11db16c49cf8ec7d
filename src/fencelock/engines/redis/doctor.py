"""What of a Redis server, as it is set up, would break a promise: for ``fencelock doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import EngineError, OutcomeUnknown
from ...model import Finding
from .dispatch import Dispatch
from .settings import Node, Settings

OLDEST = (6, 2)
CLOCK_S = 1.0

Facts = dict[str, str]


async def diagnose(
    dispatch: Dispatch, settings: Settings, wall_us: Callable[[], int]
) -> list[Finding]:
    """Look at each server that serves."""
    await dispatch.route.find("")
    findings: list[Finding] = []
    for node in dispatch.route.nodes():
        facts = _read_info(await dispatch.command("INFO", node=node))
        config = await _config(dispatch, node)
        before = wall_us()
        seconds, micros = await dispatch.command("TIME", node=node)
        ahead_s = (int(seconds) * 1_000_000 + int(micros) - (before + wall_us()) / 2) / 1e6
        findings += judge(f"{node[0]}:{node[1]}", facts, config, ahead_s, settings.replicas)
    return findings


async def _config(dispatch: Dispatch, node: Node) -> Facts | None:
    """The settings that matter; None where we may not see them."""
    found: Facts = {}
    for setting in ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save"):
        try:
            reply = await dispatch.command("CONFIG", "GET", setting, node=node)
        except (EngineError, OutcomeUnknown):
            return None
        found.update(zip(_texts(reply[::2]), _texts(reply[1::2]), strict=True))
    return found


def judge(
    where: str, facts: Facts, config: Facts | None, ahead_s: float, replicas: int
) -> list[Finding]:
    """The findings for one server, from what it says about itself."""
    return [
        *_version(where, facts),
        *_memory(where, facts, config),
        *_persistence(where, config),
        *_replication(where, facts, replicas),
        *_clock(where, ahead_s),
    ]


def _version(where: str, facts: Facts) -> Iterator[Finding]:
    product = "Valkey" if "valkey_version" in facts else "Redis"
    text = facts.get("valkey_version") or facts.get("redis_version", "0.0")
    number = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if number < OLDEST:
        advice = "upgrade to Redis 6.2 or newer, or to Valkey"
        yield Finding("problem", "version", f"{where} is {product} {text}, too old", advice)
    else:
        yield Finding("ok", "version", f"{where} is {product} {text}")


def _memory(where: str, facts: Facts, config: Facts | None) -> Iterator[Finding]:
    policy = facts.get("maxmemory_policy") or (config or {}).get("maxmemory-policy", "")
    limit = int(facts.get("maxmemory") or (config or {}).get("maxmemory", "0") or 0)
    if limit and policy != "noeviction":
        yield Finding(
            "problem",
            "eviction",
            f"{where} may drop any lock when it runs out of memory (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction, or keep locks on a server without a cache",
        )
    elif policy != "noeviction":
        yield Finding(
            "note",
            "eviction",
            f"{where} would drop locks if it had a memory limit (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction before you set maxmemory",
        )
    else:
        yield Finding("ok", "eviction", f"{where} drops no lock to save memory")


def _persistence(where: str, config: Facts | None) -> Iterator[Finding]:
    if config is None:
        text = f"{where} does not let us read its configuration: whether locks survive is unknown"
        yield Finding("note", "persistence", text, "allow CONFIG GET to the user, or look yourself")
    elif config.get("appendonly") != "yes":
        yield Finding(
            "warning",
            "persistence",
            f"{where} forgets all locks when it restarts: holders then overlap until they renew",
            "set appendonly yes; the fence grows in either case",
        )
    elif config.get("appendfsync") != "always":
        text = f"{where} may forget the locks of its last second when its machine dies"
        yield Finding("note", "persistence", text, "set appendfsync always if that matters")
    else:
        yield Finding("ok", "persistence", f"{where} writes each lock to its disk")


def _replication(where: str, facts: Facts, replicas: int) -> Iterator[Finding]:
    if facts.get("role") != "master":
        advice = "connect to the primary, or by redis+sentinel://"
        yield Finding("problem", "replication", f"{where} is a replica and grants nothing", advice)
        return
    connected = int(facts.get("connected_slaves", "0"))
    if connected and not replicas:
        yield Finding(
            "warning",
            "replication",
            f"{where} has {connected} replica(s), and a failover can forget the last grants",
            f"connect with replicas={connected}, so that a grant waits for them",
        )
    elif replicas > connected:
        yield Finding(
            "problem",
            "replication",
            f"{where} has {connected} replica(s) and replicas={replicas} is demanded",
            "no lock can be granted: connect more replicas or demand fewer",
        )
    else:
        yield Finding("ok", "replication", f"{where} is a primary with {connected} replica(s)")


def _clock(where: str, ahead_s: float) -> Iterator[Finding]:
    if abs(ahead_s) > CLOCK_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        text = f"the clock of {where} is {abs(ahead_s):.1f} s {direction} ours"
        yield Finding("warning", "clock", text, "have all machines follow a time server")
    else:
        yield Finding("ok", "clock", f"the clock of {where} agrees with ours")


def _read_info(reply: bytes) -> Facts:
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {key: value for key, colon, value in lines if colon}


def _texts(words: Any) -> list[str]:
    return [word.decode("utf-8", "replace") for word in words]
