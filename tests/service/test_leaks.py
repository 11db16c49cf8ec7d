"""Errors of drivers that an engine lets through: the node says that the outcome is unknown."""

from __future__ import annotations

import pytest

from tests.cli.program import Program
from tests.cli.test_exit_codes import install
from tests.service.nodes import Node, answer_of, new_id

ENGINE = '''
import asyncio
from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.memory import MemoryEngine

ERRORS = {
    "refused": lambda: ConnectionRefusedError(111, "refused"),
    "reset": lambda: ConnectionResetError(104, "reset"),
    "silent": lambda: TimeoutError("silent"),
    "ended": lambda: asyncio.IncompleteReadError(b"", 1),
    "several": lambda: ExceptionGroup("g", [OSError("one"), Unavailable(), EOFError()]),
    "unknown": lambda: OutcomeUnknown(),
    "cancelled": lambda: asyncio.CancelledError(),
    "unavailable": lambda: Unavailable(),
    "defect": lambda: KeyError("a defect"),
    "defects": lambda: ExceptionGroup("g", [OSError("one"), KeyError("a defect")]),
}


class Leaky(MemoryEngine):
    """Raises what the name of a lock says when the lock is renewed or watched."""

    schemes = ("leaky",)

    async def renew(self, grants):
        raise ERRORS[grants[0].name]()

    async def watch(self, request, signal):
        raise ERRORS[request.name]()
'''
UNKNOWN = ["refused", "reset", "silent", "ended", "several", "unknown", "cancelled"]
ANSWERS = {
    **dict.fromkeys(UNKNOWN, (504, "outcome-unknown", True)),
    "defect": (500, "internal", True),
    "defects": (500, "internal", True),
    "unavailable": (503, "engine-unavailable", False),  # last: then the engine is left alone
}


@pytest.fixture
def leaky(program: Program) -> Node:
    """A node over an engine of another package."""
    install(program, "leaky", ENGINE)
    return Node(program, "--insecure", "--drain", "0s", url="leaky://")


def test_an_error_of_a_connection_is_an_unknown_outcome_and_any_other_a_defect(
    leaky: Node,
) -> None:
    for name, expected in ANSWERS.items():
        lease = {"name": name, "id": new_id(), "fence": 1, "ttl": 60}
        reply = leaky.call("renew", {"leases": [lease]})
        assert (reply.status, reply.problem, reply.body["may_have_happened"]) == expected, name
    assert leaky.stop() == 0
    assert leaky.process.stderr is not None
    said = leaky.process.stderr.read()
    assert said.count("Traceback (most recent call last)") >= 2  # of the defects
    assert "Task exception was never retrieved" not in said


@pytest.mark.parametrize("name", ANSWERS)
def test_who_begins_to_wait_is_told_the_same(name: str, leaky: Node) -> None:
    leaky.acquire(name, ttl=600)
    waiting = leaky.begin("acquire", {"name": name, "wait": 55, "ttl": 60})
    reply = answer_of(waiting)
    found = (reply.status, reply.problem, reply.body["may_have_happened"])
    assert found == ANSWERS[name]
    assert leaky.inspect(name)["waiters"] == []
