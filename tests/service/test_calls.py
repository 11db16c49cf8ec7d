"""Acquire, renew and release over real sockets, in front of two engines."""

from __future__ import annotations

import pytest

import fencelock
from tests.cli.program import Program
from tests.service.nodes import Node, held, new_id


def test_a_lock_is_acquired_renewed_and_released(node: Node) -> None:
    reply = node.call("acquire", {"name": "seat:1A", "ttl": 60, "meta": {"why": "a test"}})
    assert reply.status == 200
    lease = reply.body
    assert (lease["schema"], lease["name"], lease["ttl"], lease["renew_in"]) == (
        1,
        "seat:1A",
        60,
        20,
    )
    assert lease["waited"] >= 0
    assert reply.headers["fencing-token"] == str(lease["fence"])
    assert reply.headers["fencing-name"] == "seat%3A1A"
    assert node.renew(lease) == [{"held": True, "ttl": 60.0}]
    assert node.inspect("seat:1A")["holders"][0]["meta"] == {
        "why": "a test",
        "identity": "anonymous",
    }
    assert node.release(lease) == [True]
    assert node.release(lease) == [False]
    assert node.inspect("seat:1A")["holders"] == []


def test_a_held_lock_is_busy_and_the_next_fence_is_higher(node: Node) -> None:
    first = node.acquire("b")
    busy = node.call("acquire", {"name": "b"})
    assert (busy.status, busy.problem, busy.body["may_have_happened"]) == (409, "busy", False)
    node.release(first)
    second = node.acquire("b")
    assert second["fence"] > first["fence"]
    node.release(second)


def test_the_same_call_sent_twice_is_one_hold(node: Node) -> None:
    given = new_id()
    once, again = node.acquire("c", id=given), node.acquire("c", id=given)
    assert (once["id"], once["fence"]) == (given, again["fence"])
    assert node.release(once) == [True]
    assert node.inspect("c")["holders"] == []


def test_a_delayed_copy_of_a_released_acquire_is_refused(node: Node) -> None:
    lease = node.acquire("d", id=new_id())
    node.release(lease)
    late = node.call("acquire", {"name": "d", "id": lease["id"]})
    assert (late.status, late.problem) == (409, "id-spent")
    assert node.inspect("d")["holders"] == []


def test_a_lease_that_is_gone_is_no_error_of_the_request(node: Node) -> None:
    lost, kept = node.acquire("e1"), node.acquire("e2")
    node.call("revoke", {"name": "e1", "reason": "for a test"})
    answers = node.renew(lost, kept)
    assert answers[0] == {"held": False, "loss": "revoked", "reason": "for a test"}
    assert answers[1] == {"held": True, "ttl": 30.0}
    assert node.release(lost, kept) == [False, True]


def test_an_id_of_another_lease_neither_renews_nor_releases(node: Node) -> None:
    lease = node.acquire("f")
    stranger = {**lease, "id": new_id()}
    assert node.renew(stranger)[0]["held"] is False
    assert node.release(stranger) == [False]
    assert node.renew(lease)[0]["held"] is True
    node.release(lease)


def test_many_leases_are_renewed_and_released_in_one_call(node: Node) -> None:
    leases = [node.acquire(f"g{number}") for number in range(100)]
    assert {one["held"] for one in node.renew(*leases)} == {True}
    assert node.release(*leases) == [True] * 100


def test_the_service_tells_about_its_engine_and_who_asks(node: Node) -> None:
    about = node.call("about").body
    assert about["schema"] == 1
    assert about["version"] == fencelock.__version__
    assert about["engine"] in ("memory", "sqlite")
    assert about["traits"]["safety"] == "correctness"
    assert about["identity"] == "anonymous"
    assert about["limits"]["wait_max"] == 55


def test_semaphores_and_read_write_locks_have_several_holders(node: Node) -> None:
    slots = [node.acquire("h", role="semaphore", limit=2) for _ in range(2)]
    assert {slot["slot"] for slot in slots} == {0, 1}
    assert node.call("acquire", {"name": "h", "role": "semaphore", "limit": 2}).problem == "busy"
    readers = [node.acquire("h", role="read") for _ in range(2)]
    assert node.call("acquire", {"name": "h", "role": "write"}).problem == "busy"
    assert [one["held"] for one in node.renew(*slots, *readers)] == [True] * 4
    assert node.release(*slots, *readers) == [True] * 4
    writer = node.acquire("h", role="write")
    assert node.call("acquire", {"name": "h", "role": "read"}).problem == "busy"
    assert node.release(writer) == [True]


def test_python_programs_and_the_service_exclude_each_other(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s")
    with program.client() as client:
        with client.lock("shared", ttl=60) as lease:
            assert node.call("acquire", {"name": "shared"}).problem == "busy"
        theirs = node.acquire("shared")
        assert theirs["fence"] > lease.fence
        assert client.lock("shared").try_acquire() is None
    assert node.stop() == 0


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_hold_goes_on_through_another_node(verb: str, program: Program) -> None:
    first = Node(program, "--insecure", "--drain", "0s")
    lease = first.acquire("a", ttl=60)
    first.stop(9)
    second = Node(program, "--insecure", "--drain", "0s")
    assert second.acquire("a", id=lease["id"], ttl=60)["fence"] == lease["fence"]
    reply = second.call(verb, {"leases": [held(lease)]})
    assert reply.body["leases"][0] in ({"held": True, "ttl": 60.0}, {"released": True})
    assert second.stop() == 0
