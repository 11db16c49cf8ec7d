"""A node that stands still for longer than a lease, and answers late: nobody is misled."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.program import Program, eventually
from tests.service.crowd import Crowd
from tests.service.nodes import Node, Reply, answer_of, new_id

TTL = 1.5


def believed_until(sent_at: float, reply: Reply) -> float:
    """When a client stops to believe in a lease: the arithmetic of the document."""
    lease: dict[str, float] = reply.body
    return sent_at + lease["waited"] + lease["ttl"] * 0.99


@pytest.fixture
def two(program: Program) -> tuple[Node, Node]:
    first, second = (Node(program, "--insecure", "--drain", "0s") for _ in range(2))
    return first, second


@pytest.mark.parametrize("when", ["before it was read", "while it waited"])
def test_a_late_answer_is_not_believed_for_longer_than_it_is_true(
    when: str, two: tuple[Node, Node]
) -> None:
    """H77: the node was frozen past the ttl; another has the lock when the answer comes, or not."""
    frozen, other = two
    lease = other.acquire("seat", ttl=600)
    mine = {"name": "seat", "id": new_id(), "wait": 55, "ttl": TTL}
    if when == "before it was read":
        frozen.process.send_signal(signal.SIGSTOP)
        sent_at = time.monotonic()
        asked = frozen.begin("acquire", mine)
    else:
        sent_at = time.monotonic()
        asked = frozen.begin("acquire", mine)
        other.queue("seat", 1)
        frozen.process.send_signal(signal.SIGSTOP)
    other.release(lease)
    taken = eventually(lambda: _granted(other, {"name": "seat", "ttl": 600, "wait": 5}))
    assert taken is not None
    granted_at = time.monotonic()
    frozen.process.send_signal(signal.SIGCONT)
    assert other.renew(taken.body)[0]["held"] is True
    other.release(taken.body)
    answer = answer_of(asked)
    if answer.status == 200:  # it stood in the queue again, and holds now, or knows that it is late
        assert answer.body["fence"] > taken.body["fence"] or (
            believed_until(sent_at, answer) < granted_at
        )
        holders = other.inspect("seat")["holders"]
        remaining = holders[0]["remaining"] if holders else 0.0
        assert believed_until(sent_at, answer) <= time.monotonic() + remaining
    else:
        assert answer.problem in ("busy", "engine-unavailable", "outcome-unknown"), answer


def _granted(node: Node, body: object) -> Reply | None:
    reply = node.call("acquire", body)
    return reply if reply.status == 200 else None


def test_a_renewal_that_was_frozen_does_not_bring_a_lost_lock_back(two: tuple[Node, Node]) -> None:
    """H77: it is answered after the thaw, and says that the lock is lost."""
    frozen, other = two
    lease = other.acquire("seat", ttl=TTL)
    frozen.process.send_signal(signal.SIGSTOP)
    asked = frozen.begin(
        "renew",
        {"leases": [{"name": "seat", "id": lease["id"], "fence": lease["fence"], "ttl": TTL}]},
    )
    taken = eventually(lambda: _granted(other, {"name": "seat", "ttl": 600, "wait": 5}))
    assert taken is not None
    frozen.process.send_signal(signal.SIGCONT)
    assert answer_of(asked).body["leases"][0]["held"] is False
    assert other.renew(taken.body)[0]["held"] is True


def test_there_is_one_holder_however_often_a_node_stands_still(
    program: Program, tmp_path: Path
) -> None:
    """H77: freezes longer than the ttl at any moment of many turns, judged as a history."""
    nodes = [Node(program, "--insecure", "--drain", "0s") for _ in range(2)]
    crowd = Crowd([(node.host, node.port) for node in nodes], size=4, ttl=TTL)
    try:
        for _ in range(4):
            turns = crowd.turns
            eventually(lambda t=turns: crowd.turns > t + 5 or crowd.errors)  # type: ignore[misc]
            nodes[0].process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * TTL)  # the freeze itself
            nodes[0].process.send_signal(signal.SIGCONT)
    finally:
        nodes[0].process.send_signal(signal.SIGCONT)
        crowd.stop()
    ruling = crowd.verdict()
    assert ruling.passed, str(ruling)
