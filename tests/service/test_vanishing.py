"""Clients that vanish: while they wait, at the moment of the grant, and without a word."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from functools import partial

import pytest

from tests.cli.program import Program, eventually
from tests.service.nodes import CUTS, Node, answer_of, held, new_id

LONG = 55
TCP_REPAIR = 19


def half_close(peer: socket.socket) -> None:
    """Send an end, and go on listening: nobody can tell that from a client that is gone."""
    peer.shutdown(socket.SHUT_WR)


def pipeline(cut: Callable[[socket.socket], None], peer: socket.socket) -> None:
    """Send another request behind the one that waits, then vanish."""
    peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    cut(peer)


WAYS: dict[str, Callable[[socket.socket], None]] = {
    **CUTS,
    "half-closed": half_close,
    **{f"pipelined {name}": partial(pipeline, cut) for name, cut in CUTS.items()},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_vanishes_while_queued_leaves_the_queue(way: str, node: Node) -> None:
    """H75: however its connection ends."""
    name = f"queued-{way}"
    lease = node.acquire(name, ttl=600)
    waiting = node.begin("acquire", {"name": name, "wait": LONG, "ttl": 600})
    with waiting:
        node.queue(name, 1)
        WAYS[way](waiting)
        node.queue(name, 0)
    node.release(lease)
    assert node.inspect(name)["holders"] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_grant_that_comes_after_the_end_of_its_client_is_given_back(way: str, node: Node) -> None:
    """H75: the release and the hang-up are there when the node looks next."""
    name = f"granted-{way}"
    lease = node.acquire(name, ttl=600)
    waiting = node.begin("acquire", {"name": name, "wait": LONG, "ttl": 600})
    with waiting:
        node.queue(name, 1)
        node.process.send_signal(signal.SIGSTOP)
        released = node.begin("release", {"leases": [held(lease)]})
        WAYS[way](waiting)
        node.process.send_signal(signal.SIGCONT)
        assert answer_of(released).status == 200
        eventually(lambda: node.inspect(name)["holders"] == [])


@pytest.mark.parametrize("way", CUTS)
def test_a_client_that_is_gone_before_its_call_is_read_gets_no_lock(way: str, node: Node) -> None:
    """H75: the call and the hang-up are there when the node looks."""
    for number in range(5):
        name = f"read-{way}-{number}"
        node.process.send_signal(signal.SIGSTOP)
        CUTS[way](node.begin("acquire", {"name": name, "ttl": 600}))
        node.process.send_signal(signal.SIGCONT)
        eventually(lambda name=name: node.inspect(name)["holders"] == [])  # type: ignore[misc]


@pytest.mark.parametrize("way", WAYS)
def test_the_place_of_a_poll_that_vanished_is_passed_over(way: str, node: Node) -> None:
    """H75: who waits behind it gets the lock, although the poll's place is kept for a while."""
    name = f"poll-{way}"
    lease, ghost = node.acquire(name, ttl=600), {"name": name, "id": new_id(), "ttl": 600}
    waiting = node.begin("wait", {"inbox": way, "wants": [ghost]})
    with waiting:
        node.queue(name, 1)
        alive = node.begin("acquire", {"name": name, "wait": LONG, "ttl": 600})
        node.queue(name, 2)
        WAYS[way](waiting)
        node.release(lease)
        got = answer_of(alive)
        assert got.status == 200, got
        assert node.renew(got.body)[0]["held"] is True
        node.release(got.body)


def vanish(peer: socket.socket) -> None:
    """End a connection without a word to the other side, as a machine does that loses its power."""
    try:
        peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except OSError as error:
        pytest.skip(f"to close without a word needs the capability NET_ADMIN: {error.strerror}")
    peer.close()


def test_a_client_whose_machine_lost_its_power_is_noticed(program: Program) -> None:
    """H75: nothing comes from it any more; the kernel asks after it."""
    node = Node(program, "--insecure", "--drain", "0s")
    lease = node.acquire("seat", ttl=600)
    calls = [node.begin("acquire", {"name": "seat", "wait": LONG, "ttl": 600}) for _ in range(3)]
    node.queue("seat", 3)
    for call in calls:
        vanish(call)
    eventually(lambda: node.inspect("seat")["waiters"] == [], LONG / 2)
    assert node.release(lease) == [True]
    assert node.inspect("seat")["holders"] == []


def test_an_answer_that_was_handed_over_is_never_taken_back(node: Node) -> None:
    """H75: clients close after every answer; that is no sign of anything."""
    body = json.dumps({"name": "closed", "ttl": 600}).encode()
    head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for cut in CUTS.values():
        peer = socket.create_connection((node.host, node.port), 60)
        peer.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        with peer.makefile("rb") as answer:
            assert answer.readline().startswith(b"HTTP/1.1 200"), cut
            size = next(int(x.split(b":")[1]) for x in answer if x.startswith(b"content-length"))
            while answer.readline() != b"\r\n":
                pass
            lease = json.loads(answer.read(size))
        cut(peer)
        assert node.renew(lease)[0]["held"] is True
        assert node.release(lease) == [True]
