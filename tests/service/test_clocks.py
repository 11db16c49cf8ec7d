"""The clocks of a node step; leases, waits and fences do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Program, eventually
from tests.servers.clock import Clock
from tests.service.nodes import Node, answer_of, new_id

HOUR = 3600.0


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_of_the_wall_clock_changes_nothing(
    step: float, program: Program, tmp_path: Path
) -> None:
    """H79: leases hold, waiters wait on and are served, fences grow."""
    clock = Clock(tmp_path)
    program.environment |= clock.environment
    node = Node(program, "--insecure", "--drain", "0s")
    lease = node.acquire("seat", ttl=60)
    waiting = node.begin("acquire", {"name": "seat", "wait": 55, "ttl": 60})
    node.queue("seat", 1)
    polled = node.begin("wait", {"inbox": "i", "wants": [{"name": "seat", "id": new_id()}]})
    node.queue("seat", 2)
    before = wall(node)
    clock.set(wall=step)
    assert abs(wall(node) - before - step) < 600, "the shim does not work"
    assert node.renew(lease)[0] == {"held": True, "ttl": 60.0}
    assert node.call("acquire", {"name": "seat"}).problem == "busy"
    assert len(node.inspect("seat")["waiters"]) == 2
    assert node.release(lease) == [True]
    fences = [lease["fence"]]
    for peer in (waiting, polled):
        body = answer_of(peer).body
        granted = body["granted"][0] if "granted" in body else body
        clock.set(wall=-step if peer is waiting else 0.0)
        fences.append(granted["fence"])
        assert node.release(granted) == [True]
    assert fences == sorted(set(fences))


def wall(node: Node) -> float:
    """The wall clock of a node, from the date of its answers, which it looks up every second."""
    import email.utils

    seen = {node.send("GET", "/healthz").headers["date"]}
    eventually(lambda: node.send("GET", "/healthz").headers["date"] not in seen)
    date = node.send("GET", "/healthz").headers["date"]
    return email.utils.parsedate_to_datetime(date).timestamp()


def test_a_suspended_machine_has_lost_the_leases_that_ended_meanwhile(
    program: Program, tmp_path: Path
) -> None:
    """H79: leases of an engine on the same machine run on while it sleeps."""
    clock = Clock(tmp_path)
    program.environment |= clock.environment
    node = Node(program, "--insecure", "--drain", "0s")
    short, long = node.acquire("short", ttl=30), node.acquire("long", ttl=600)
    clock.set(boot=60.0, wall=60.0)
    lost, kept = node.renew(short, long)
    assert (lost["held"], lost["loss"]) == (False, "expired"), json.dumps(lost)
    assert kept["held"] is True
    assert node.acquire("short")["fence"] > short["fence"]
