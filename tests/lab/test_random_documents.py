"""Random documents: whatever is played ends, is the same again, and breaks no promise of ours."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from fencelock import lab

SERVERS = {
    "store": ["store"],
    "redis": ["redis"],
    "redlock": ["redis-1", "redis-2", "redis-3"],
    "zookeeper": ["zookeeper-1", "zookeeper-2", "zookeeper-3"],
    "service": ["store", "node-1", "node-2"],
}
VISITS = [
    ["acquire seat ttl 2", "read", "work 0.7", "append V", "release"],
    ["acquire seat ttl 1 renew off", "read", "work 2", "append V", "release"],
    ["acquire seat ttl 3 timeout 1", "stop on loss", "read", "check", "append V", "release"],
    ["acquire seat ttl 2", "insert V once k", "read", "append V if unchanged", "release"],
    ["acquire seat timeout 0", "renew", "read", "work 0.2", "append V", "release", "again"],
]
CALM = ("pause", "crash", "restart", "cancel", "freeze", "reboot", "cut", "slow", "revoke")
"""Faults under which everything is promised."""


def drawn(seed: int, kind: str) -> dict[str, Any]:
    chance = random.Random(f"{seed} {kind}")
    names = "ABCD"[: chance.randint(2, 4)]
    actors: dict[str, Any] = {}
    for name in names:
        visit = [line.replace("V", f"{name}1") for line in chance.choice(VISITS)]
        actors[name] = {"script": [f"at {chance.uniform(0, 4):.2f}", *visit]}
    faults = [fault(chance, names, SERVERS[kind]) for _ in range(chance.randint(0, 5))]
    engine = {"kind": kind} | ({"nodes": 3} if kind == "redlock" else {})
    facts = {"v": 1, "title": "Random", "seed": seed, "until": 14}
    return facts | {"engine": engine, "actors": actors, "faults": faults}


def fault(chance: random.Random, names: str, servers: list[str]) -> dict[str, Any]:
    kind = chance.choice(CALM)
    found: dict[str, Any] = {"kind": kind, "at": round(chance.uniform(0, 8), 2)}
    if kind in ("pause", "crash", "restart", "cancel"):
        found["whom"] = chance.choice(names)
    if kind in ("freeze", "reboot"):
        found["whom"] = chance.choice(servers)
    if kind in ("cut", "slow"):
        ends = [*names, *servers] if talk(servers) else list(names)
        found |= {"from": chance.choice(ends), "to": chance.choice([*servers, "resource"])}
        found["one_way"] = chance.random() < 0.5
    if kind == "slow":
        found["by"] = chance.choice([0.1, 1.0])
    if kind not in ("crash", "cancel", "revoke"):
        found["for"] = round(chance.uniform(0, 4), 2)
    return found


def talk(servers: list[str]) -> bool:
    """Whether servers talk to each other, and can be cut off from each other."""
    return servers[0] == "zookeeper-1" or "node-1" in servers


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("seed", range(25))
def test_a_guarded_lock_keeps_its_promises_in_a_random_document(kind: str, seed: int) -> None:
    document = drawn(seed, kind)
    trace = lab.play(document)
    assert trace.outcome["broken"] == [], json.dumps(document)
    assert lab.play(document).digest == trace.digest
    assert json.loads(trace.json()) == trace.data


def test_random_documents_have_all_that_is_looked_for() -> None:
    traces = [lab.play(drawn(seed, "redis")) for seed in range(25)]
    kinds = {one["kind"] for trace in traces for one in trace.data["events"]}
    assert kinds >= {"granted", "written", "told", "refused", "pause", "crash", "restart", "revoke"}
    spans = {one["kind"] for trace in traces for one in trace.data["spans"]}
    assert spans == {"waits", "holds", "believes wrongly", "frozen", "cut", "down"}
