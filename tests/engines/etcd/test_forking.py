"""A fork and calls of gRPC keep out of each other's way: the gate between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from fencelock import Unsupported
from fencelock.engines.etcd import forking
from fencelock.engines.etcd.forking import Gate
from tests.servers.server import until

WITHIN_S = 20.0


class Aside:
    """Something that is done in another thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self._thread.join(WITHIN_S)
        assert not self.runs


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setattr(forking, "WAIT_S", WITHIN_S)
    return Gate()


def test_a_fork_waits_for_every_call_that_is_inside(gate: Gate) -> None:
    visits = [object(), object()]
    for visit in visits:
        gate.enter(visit)
    fork = Aside(gate.before_fork)
    until(lambda: gate.fork is not None, "a fork that shows itself")
    gate.leave(visits[0])
    assert fork.runs
    gate.leave(visits[1])
    fork.end()
    gate.after_in_child()
    gate.check()


def test_a_call_that_comes_during_a_fork_waits_for_its_end(gate: Gate) -> None:
    gate.before_fork()
    inside = threading.Event()

    def come() -> None:
        gate.enter(gate)
        inside.set()

    call = Aside(come)
    until(lambda: gate.fork is not None and gate.fork.left.is_set(), "a call that stepped back")
    assert not inside.is_set()
    assert not gate.inside
    gate.after_in_parent()
    call.end()
    assert inside.is_set()
    assert gate.inside == {gate}


def test_a_fork_that_found_a_call_inside_leaves_a_child_that_is_refused(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "WAIT_S", 0.0)
    gate.enter(gate)
    gate.before_fork()
    gate.leave(gate)  # too late: the fork has looked
    gate.after_in_child()
    with pytest.raises(Unsupported, match="forked while its parent used gRPC"):
        gate.check()


def test_the_parent_goes_on_after_a_fork_and_may_fork_again(gate: Gate) -> None:
    for _ in range(3):
        visit = object()
        gate.enter(visit)
        gate.leave(visit)
        gate.before_fork()
        gate.after_in_parent()
    gate.enter(gate)
    gate.check()


def test_calls_and_forks_by_the_hundred_never_meet(gate: Gate) -> None:
    """Threads go in and out as fast as they can while another forks: nobody is inside then."""
    over = threading.Event()
    inside: set[object] = set()

    def call() -> None:
        while not over.is_set():
            visit = object()
            gate.enter(visit)
            inside.add(visit)
            inside.discard(visit)
            gate.leave(visit)

    calls = [Aside(call) for _ in range(3)]
    met: list[object] = []
    try:
        for _ in range(100):
            gate.before_fork()
            time.sleep(0.001)  # the others run while the fork takes its time
            met += inside
            gate.after_in_parent()
    finally:
        over.set()
    for each in calls:
        each.end()
    assert not met
    assert not gate.inside
