"""Long polls: who waits, what is kept between two polls, and that a ghost never gets a lock."""

from __future__ import annotations

import signal
import socket
import time
from typing import Any

import pytest

from tests.cli.program import Program, eventually
from tests.service.nodes import CUTS, Node, answer_of, new_id

LONG = 55


def want(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "id": new_id(), "ttl": 60, **more}


def poll(node: Node, inbox: str, *wants: dict[str, object], hold: float = LONG) -> socket.socket:
    return node.begin("wait", {"inbox": inbox, "hold": hold, "wants": list(wants)})


def test_an_acquire_waits_until_the_lock_is_released(node: Node) -> None:
    first = node.acquire("a", ttl=60)
    waiter = node.begin("acquire", {"name": "a", "wait": LONG, "ttl": 60})
    node.queue("a", 1)
    node.release(first)
    second = answer_of(waiter)
    assert second.status == 200
    assert second.body["fence"] > first["fence"]
    assert second.body["waited"] > 0
    node.release(second.body)


def test_who_waited_too_long_leaves_the_queue(node: Node) -> None:
    lease = node.acquire("b", ttl=60)
    reply = node.call("acquire", {"name": "b", "wait": 0.2})
    assert (reply.status, reply.problem) == (409, "busy")
    assert node.inspect("b")["waiters"] == []
    node.release(lease)


def test_a_place_that_is_kept_is_waited_for_by_a_poll(node: Node) -> None:
    lease, mine = node.acquire("c", ttl=60), want("c")
    reply = node.call("acquire", {**mine, "keep": True})
    assert (reply.status, reply.body["position"]) == (202, 0)
    later = node.begin("acquire", {"name": "c", "wait": LONG, "ttl": 60})
    node.queue("c", 2)
    waiting = poll(node, "i", mine)
    node.release(lease)
    (granted,) = answer_of(waiting).body["granted"]
    assert granted["id"] == mine["id"]
    node.release(granted)
    node.release(answer_of(later).body)


def test_one_poll_waits_for_many_locks_and_tells_which_was_granted(node: Node) -> None:
    leases = [node.acquire(f"d{number}", ttl=60) for number in range(50)]
    wants = [want(f"d{number}") for number in range(50)]
    waiting = poll(node, "i", *wants)
    node.queue("d49", 1)
    node.release(leases[7])
    body = answer_of(waiting).body
    assert [one["name"] for one in body["granted"]] == ["d7"]
    assert (len(body["waiting"]), body["superseded"]) == (49, False)
    again = poll(node, "i", *(one for one in wants if one["name"] != "d7"))
    node.release(leases[8])
    (granted,) = answer_of(again).body["granted"]
    assert granted["name"] == "d8"
    node.call("withdraw", {"wants": [{"name": w["name"], "id": w["id"]} for w in wants]})
    assert sum(node.release(*leases)) == 48
    assert node.inspect("d9")["holders"] == []


def test_a_newer_poll_of_an_inbox_ends_the_older_one(node: Node) -> None:
    lease, mine, other = node.acquire("e", ttl=60), want("e"), want("e-free")
    older = poll(node, "i", mine)
    node.queue("e", 1)
    newer = poll(node, "i", mine)
    ended = answer_of(older).body
    assert (ended["granted"], ended["superseded"]) == ([], True)
    unrelated = poll(node, "another", other)
    assert answer_of(unrelated).body["granted"][0]["name"] == "e-free"
    assert len(node.inspect("e")["waiters"]) == 1
    node.release(lease)
    (granted,) = answer_of(newer).body["granted"]
    assert node.release(granted) == [True]


def test_a_call_sent_twice_is_answered_once_and_nobody_is_withdrawn(node: Node) -> None:
    lease, mine = node.acquire("f", ttl=60), want("f", wait=LONG)
    once = node.begin("acquire", mine)
    node.queue("f", 1)
    again = node.begin("acquire", mine)
    assert answer_of(once).problem == "superseded"
    assert len(node.inspect("f")["waiters"]) == 1
    node.release(lease)
    assert node.release(answer_of(again).body) == [True]


def test_what_is_withdrawn_is_not_granted_any_more(node: Node) -> None:
    lease, mine = node.acquire("g", ttl=60), want("g")
    waiting = poll(node, "i", mine)
    node.queue("g", 1)
    named = {"name": "g", "id": mine["id"]}
    assert node.call("withdraw", {"wants": [named]}).body["withdrawn"] == 1
    assert answer_of(waiting).body["granted"] == []
    assert node.inspect("g")["waiters"] == []
    node.release(lease)
    assert node.inspect("g")["holders"] == []
    assert node.call("acquire", {**named, "ttl": 60}).problem == "id-spent"


@pytest.mark.parametrize("cut", CUTS)
def test_a_client_that_vanishes_in_the_queue_leaves_it(cut: str, node: Node) -> None:
    name = f"h-{cut}"
    lease = node.acquire(name, ttl=60)
    vanishing = node.begin("acquire", {"name": name, "wait": LONG, "ttl": 60})
    node.queue(name, 1)
    CUTS[cut](vanishing)
    node.queue(name, 0)
    node.release(lease)
    assert node.inspect(name)["holders"] == []


@pytest.mark.parametrize("cut", CUTS)
def test_a_ghost_never_gets_a_lock(cut: str, node: Node) -> None:
    """Its poll is cut, its place is kept: but the lock goes to who is there."""
    name = f"j-{cut}"
    lease, ghost = node.acquire(name, ttl=600), want(name, ttl=600)
    cut_off = poll(node, cut, ghost)
    node.queue(name, 1)
    alive = node.begin("acquire", {"name": name, "wait": LONG, "ttl": 60})
    node.queue(name, 2)
    CUTS[cut](cut_off)
    node.release(lease)
    got = answer_of(alive)
    assert got.status == 200, got
    node.release(got.body)
    node.call("withdraw", {"wants": [{"name": name, "id": ghost["id"]}]})


def test_who_comes_back_after_a_cut_keeps_its_place(node: Node) -> None:
    lease, mine = node.acquire("k", ttl=60), want("k")
    cut_off = poll(node, "i", mine)
    node.queue("k", 1)
    behind = node.begin("acquire", {"name": "k", "wait": LONG, "ttl": 60})
    node.queue("k", 2)
    cut_off.close()
    back = poll(node, "i", mine)
    assert len(node.inspect("k")["waiters"]) == 2
    node.release(lease)
    (granted,) = answer_of(back).body["granted"]
    node.release(granted)
    node.release(answer_of(behind).body)


def test_readers_wait_for_a_writer(node: Node) -> None:
    writer = node.acquire("l", role="write", ttl=60)
    waiting = poll(node, "i", want("l", role="read"), want("l", role="read"))
    node.queue("l", 2)
    node.release(writer)
    granted: list[dict[str, Any]] = answer_of(waiting).body["granted"]
    assert {one["role"] for one in granted} == {"read"}
    node.release(*granted)


# Two nodes of one store.


@pytest.fixture
def two(program: Program) -> tuple[Node, Node]:
    return tuple(Node(program, "--insecure", "--drain", "0s") for _ in range(2))  # type: ignore[return-value]


def test_a_poll_that_moves_to_another_node_keeps_its_lock(two: tuple[Node, Node]) -> None:
    """The first node forgets a ticket that nobody polls; it does not withdraw it."""
    first, second = two
    lease, mine = first.acquire("a", ttl=60), want("a", ttl=600)
    assert answer_of(poll(first, "i", mine, hold=0.2)).body["granted"] == []
    moved = poll(second, "i", mine)
    first.release(lease)
    (granted,) = answer_of(moved).body["granted"]
    for _ in range(12):  # longer than a ticket is kept
        assert first.call("acquire", {"name": "a"}).status == 409
        a_second()
    assert second.renew(granted)[0]["held"] is True


def a_second() -> None:
    """Let time pass in which a node that is wrong would do harm."""
    time.sleep(1.0)


def test_a_node_that_was_frozen_takes_nothing_back(two: tuple[Node, Node]) -> None:
    """Its client has gone to another node with the same id, and holds the lock there."""
    frozen, other = two
    lease, mine = other.acquire("a", ttl=60), want("a", wait=LONG, ttl=600)
    left = frozen.begin("acquire", mine)
    other.queue("a", 1)
    frozen.process.send_signal(signal.SIGSTOP)
    left.close()
    moved = other.begin("acquire", mine)
    other.release(lease)
    held = answer_of(moved)
    assert held.status == 200
    a_second()
    a_second()
    frozen.process.send_signal(signal.SIGCONT)
    eventually(lambda: frozen.send("GET", "/healthz").status == 200)
    a_second()
    assert other.renew(held.body)[0]["held"] is True


def test_waiters_of_a_killed_node_go_on_at_another(two: tuple[Node, Node]) -> None:
    killed, other = two
    lease, mine = other.acquire("a", ttl=60), want("a")
    with poll(killed, "i", mine):
        other.queue("a", 1)
        killed.stop(signal.SIGKILL)
    moved = poll(other, "i", mine)
    other.release(lease)
    (granted,) = answer_of(moved).body["granted"]
    assert other.renew(granted)[0]["held"] is True
