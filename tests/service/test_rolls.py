"""Nodes that are killed and rolled under load: who holds a lock keeps it, and there is only one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.program import Program, eventually
from tests.faults import engines
from tests.servers.server import free_port
from tests.service.crowd import Crowd
from tests.service.nodes import Node

pytestmark = pytest.mark.timeout(400)
KINDS = ["sqlite", "redis", "postgresql", "etcd"]


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_loses_a_lock_while_nodes_are_killed_and_rolled(
    kind: str, program: Program, tmp_path: Path
) -> None:
    """H76: one node after the other, by SIGKILL and by SIGTERM, under clients that go on."""
    url = engines.fresh(kind, tmp_path)
    ports = [free_port(), free_port()]

    def start(port: int) -> Node:
        return Node(program, "--insecure", "--drain", "0s", "--port", str(port), url=url)

    nodes = [start(port) for port in ports]
    # On etcd, waiters of a killed node hold the lock by turns until their ttl ends.
    ttl = 4 if kind == "etcd" else 30
    crowd = Crowd([("127.0.0.1", port) for port in ports], size=3, ttl=ttl)
    try:
        for number in [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]:
            for place, port in enumerate(ports):
                turns, renewals = crowd.turns, crowd.renewals
                nodes[place].stop(number)
                eventually(lambda t=turns: crowd.turns > t + 1 or crowd.errors)  # type: ignore[misc]
                eventually(lambda r=renewals: crowd.renewals > r + 1 or crowd.errors)  # type: ignore[misc]
                nodes[place] = start(port)
    finally:
        crowd.stop()
    ruling = crowd.verdict()
    assert ruling.passed, str(ruling)
    assert crowd.turns > 12
    for node in nodes:
        assert node.stop() == 0
