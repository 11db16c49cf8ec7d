"""The calls that the recipes of a client need: what is remembered, and who observes."""

from __future__ import annotations

import json
import select
import signal

from tests.service.nodes import Node, answer_of, held, new_id


def test_what_is_remembered_only_grows(node: Node) -> None:
    name = f"memo-{new_id()}"
    for number in (3, 7, 5):
        body = {"name": name, "item": "x", "number": number, "keep": 600}
        assert node.call("remember", body).status == 200
    assert node.call("recall", {"name": name}).body["items"] == {"x": 7}
    assert node.call("forget", {"name": name}).status == 200
    assert node.call("recall", {"name": name}).body["items"] == {}
    for wrong in ({"keep": -1}, {"number": 2**60}, {"item": "x" * 600}):
        body = {"name": name, "item": "x", "number": 1, "keep": 1, **wrong}
        assert node.call("remember", body).problem == "invalid"


def test_who_observes_is_told_of_a_change(node: Node) -> None:
    name = f"seen-{new_id()}"
    first = node.call("observe", {"name": name, "hold": 0}).body["seen"]
    assert node.call("observe", {"name": name, "hold": 0.1, "seen": first}).body["seen"] == first
    waiting = node.begin("observe", {"name": name, "hold": 55, "seen": first})
    assert node.call("announce", {"name": name}).status == 200
    second = answer_of(waiting).body["seen"]
    assert second != first
    current = node.begin("observe", {"name": name, "hold": 50, "seen": second})
    told = node.call("observe", {"name": name, "hold": 55, "seen": first})  # it missed that one
    assert told.body["seen"] == second
    assert select.select([current], [], [], 0)[0] == [], "it was told when its time was over"
    current.close()


def test_an_id_that_was_given_back_tries_again_as_another_attempt(node: Node) -> None:
    name, mine = f"again-{new_id()}", new_id()
    lease = node.acquire(name, id=mine)
    assert node.release(lease) == [True]
    assert node.call("acquire", {"name": name, "id": mine}).problem == "id-spent"
    again = node.acquire(name, id=mine, attempt=1)
    assert again["fence"] > lease["fence"]
    wants = [{"name": name, "id": mine, "attempt": 1}]
    assert node.call("withdraw", {"wants": wants}).status == 200
    assert node.call("acquire", {"name": name, "id": mine, "attempt": 1}).problem == "id-spent"
    assert node.inspect(name)["holders"] == []


def test_a_name_in_another_form_is_refused_unless_it_is_meant(node: Node) -> None:
    name = f"e\u0301-{new_id()}"
    assert node.call("acquire", {"name": name}).problem == "invalid"
    headers = {"Content-Type": "application/json", "Fencelock-Names": "exact"}
    reply = node.send("POST", "/v1/acquire", json.dumps({"name": name}).encode(), headers)
    assert reply.body["name"] == name


def test_busy_says_who_holds_to_those_who_may_see_it(node: Node) -> None:
    name = f"busy-{new_id()}"
    node.acquire(name, meta={"job": "x"})
    assert node.call("acquire", {"name": name}).body["holder"]["job"] == "x"
    queued = node.call("acquire", {"name": name, "id": new_id(), "keep": True})
    assert (queued.status, queued.body["holder"]["job"]) == (202, "x")


def test_a_call_beside_a_poll_of_the_same_id_tells_of_the_grant_once_and_for_all(
    node: Node,
) -> None:
    """A grant that one of the two has told of is not taken back by what the other leaves.

    Release and call come to a node that stands still, so that it takes both at once: whether poll
    or call is granted differs from run to run.
    """
    for _ in range(20):
        name, mine = f"beside-{new_id()}", new_id()
        lease = node.acquire(name, ttl=60)
        want = {"name": name, "id": mine, "ttl": 600}
        poll = node.begin("wait", {"inbox": mine, "wants": [want]})
        node.queue(name, 1)
        node.process.send_signal(signal.SIGSTOP)
        try:
            released = node.begin("release", {"leases": [held(lease)]})
            call = node.begin("acquire", {**want, "keep": True})
        finally:
            node.process.send_signal(signal.SIGCONT)
        assert answer_of(released).status == 200
        reply = answer_of(call)
        told = [*answer_of(poll).body["granted"], *([reply.body] if reply.status == 200 else [])]
        if not told:
            again = node.call("wait", {"inbox": mine, "wants": [want]})
            told += again.body["granted"]
        assert {one["fence"] for one in told} == {told[0]["fence"]}
        assert node.release(told[0]) == [True]
