"""What one client can take of a node: connections, memory, time; others are served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program, eventually
from tests.servers.tls import make_certificate
from tests.service.nodes import Node, answer_of, held, new_id

pytestmark = pytest.mark.timeout(400)
HEAD = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GROWTH_KB = 40_000  # far less than what is sent


def memory_kb(node: Node) -> int:
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found
    return int(found[1])


def descriptors(node: Node) -> int:
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


@contextlib.contextmanager
def opened(node: Node, number: int) -> Iterator[list[socket.socket]]:
    """Connections on which nothing was sent yet."""
    with contextlib.ExitStack() as stack:
        where = (node.host, node.port)
        yield [stack.enter_context(socket.create_connection(where, 60)) for _ in range(number)]


def ended(peer: socket.socket) -> bool:
    """Whether the other side has closed, after whatever it said."""
    peer.settimeout(60)
    try:
        while peer.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.fixture
def node(program: Program) -> Node:
    return Node(program, "--insecure", "--drain", "0s")


def flood(peer: socket.socket, piece: bytes, times: int) -> None:
    """Send until all is sent, or nobody takes any more."""
    with contextlib.suppress(OSError):
        for _ in range(times):
            peer.sendall(piece)


LARGE: dict[str, tuple[bytes, bytes]] = {
    "a body of a gigabyte": (b"Content-Length: 1073741824\r\n\r\n", b" " * 1_000_000),
    "chunks without end": (
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"f4240\r\n" + b" " * 1_000_000 + b"\r\n",
    ),
    "chunks of one byte": (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 100_000),
    "words beside a chunk": (b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 1_000_000),
    "trailers without end": (b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 100_000),
    "brackets": (b"Content-Length: 1073741824\r\n\r\n", b"[" * 1_000_000),
}


@pytest.mark.parametrize("path", ["/v1/acquire", "/v1/nothing"])
@pytest.mark.parametrize("what", LARGE)
def test_what_does_not_end_is_not_kept(what: str, path: str, node: Node) -> None:
    """Whether somebody reads the body or the call was refused before; sent by four at once."""
    before = memory_kb(node)
    head, piece = LARGE[what]
    with opened(node, 4) as peers:
        for peer in peers:
            peer.sendall(HEAD.replace(b"/v1/acquire", path.encode()) + head)
        for peer in peers:
            flood(peer, piece, 60)
        assert memory_kb(node) - before < GROWTH_KB
        lease = node.acquire("others", ttl=60)
        assert node.release(lease) == [True]
    assert memory_kb(node) - before < GROWTH_KB


def test_connections_that_send_nothing_end_and_others_are_served(node: Node) -> None:
    """Nothing, half a request, half of a second request, and a body that nobody waits for."""
    begun = {
        "nothing": b"",
        "half": HEAD[:20],
        "line ends": b"\r\n",
        "second": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
        "third": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "body": HEAD.replace(b"acquire", b"nothing") + b"Content-Length: 9\r\n\r\n{",
    }
    with opened(node, 500) as peers:
        for peer, data in zip(peers, list(begun.values()) * 100, strict=False):
            peer.sendall(data)
        for peer in peers[4::6]:  # what comes after a whole request, and does not end
            assert peer.recv(4096).startswith(b"HTTP/1.1 200")
            peer.sendall(b"GET /hea")
        lease = node.acquire("others", ttl=60)
        assert node.release(lease) == [True]
        for peer in peers:
            assert ended(peer)
    eventually(lambda: descriptors(node) < 60)


def test_a_body_that_does_not_arrive_in_time_is_refused(node: Node) -> None:
    with opened(node, 1) as (peer,):
        peer.sendall(HEAD + b"Content-Length: 90\r\n\r\n{")
        reply = answer_of(peer)
    assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert reply.problem == "slow-request"


def test_a_client_that_never_reads_is_cut_off(node: Node) -> None:
    """Its answers are as large as answers get; others are served, and memory comes back."""
    meta = {"text": "x" * 3_900}
    wants = [{"name": f"large/{n}", "id": new_id(), "ttl": 600, "meta": meta} for n in range(400)]
    leases: list[dict[str, Any]] = node.call("wait", {"inbox": "i", "wants": wants}).body["granted"]
    while len(leases) < 400:
        ids = {one["id"] for one in leases}
        rest = [want for want in wants if want["id"] not in ids]
        leases += node.call("wait", {"inbox": "i", "wants": rest}).body["granted"]
    with opened(node, 20) as peers:
        for peer in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.sendall(b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert node.call("inspect", {"name": "others"}).status == 200
        eventually(lambda: descriptors(node) < 30)
    assert node.release(*leases[:1]) == [True]


def test_a_connection_too_many_is_refused_and_the_engine_keeps_its_descriptors(
    program: Program,
) -> None:
    """With few descriptors for the process: those who are there are served, all the time."""
    node = limited(program, 160)
    kept = http.client.HTTPConnection(node.host, node.port, timeout=60)
    kept.request("GET", "/v1/about")
    assert kept.getresponse().read()
    with opened(node, 500):
        for number in range(3):
            body = json.dumps({"name": f"kept{number}", "ttl": 60})
            kept.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
            answer = kept.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        assert descriptors(node) < 160
    kept.close()
    lease = eventually(lambda: _acquired(node))
    assert lease is not None
    assert node.release(lease) == [True]
    node.stop()
    assert node.process.stderr is not None
    said = node.process.stderr.read()
    assert "raise the limit of open files" in said
    assert len(said.splitlines()) < 20
    assert "Traceback" not in said


def test_handshakes_that_are_not_begun_count_as_connections_and_end(program: Program) -> None:
    """Strangers who connect and speak no TLS: clients are served meanwhile, and new ones after."""
    certificate, key = make_certificate(program.folder)
    node = limited(program, 160, "--tls-cert", str(certificate), "--tls-key", str(key))
    context = ssl.create_default_context(cafile=str(certificate))

    def connect() -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(node.host, node.port, timeout=60, context=context)

    def about(connection: http.client.HTTPSConnection) -> int:
        connection.request("GET", "/v1/about")
        answer = connection.getresponse()
        answer.read()
        return answer.status

    kept = connect()
    assert about(kept) == 200
    with opened(node, 300) as peers, contextlib.closing(kept):
        for peer in peers[59:]:
            assert ended(peer)  # with the one that is served, these are too many
        assert descriptors(node) < 130
        assert about(kept) == 200
        for peer in peers:
            assert ended(peer)
        with contextlib.closing(connect()) as new:
            assert about(new) == 200
    assert node.stop() == 0
    assert node.process.stderr is not None
    said = node.process.stderr.read()
    assert "raise the limit of open files" in said
    assert len(said.splitlines()) < 5


def limited(program: Program, files: int, *words: str) -> Node:
    """A node that may open so many files."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        return Node(program, "--insecure", "--drain", "0s", *words)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _acquired(node: Node) -> dict[str, Any] | None:
    try:
        reply = node.call("acquire", {"name": "after", "ttl": 60})
    except OSError:
        return None
    return reply.body if reply.status == 200 else None


def test_a_process_without_any_descriptor_goes_on_when_there_are_some(program: Program) -> None:
    """The limit is taken away from a running node: calls on open connections still end well."""
    import resource

    node = Node(program, "--insecure", "--drain", "0s")
    kept = http.client.HTTPConnection(node.host, node.port, timeout=60)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (descriptors(node), hard))
    with opened(node, 20):
        for _ in range(3):
            kept.request("GET", "/healthz")
            answer = kept.getresponse()
            assert answer.status == 200
            answer.read()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (1024, hard))
    kept.close()
    lease = eventually(lambda: _acquired(node))
    assert lease is not None
    assert node.release(lease) == [True]


@pytest.mark.timeout(800)
def test_ten_thousand_waiters_of_a_hundred_clients(program: Program) -> None:
    """Each client waits for a hundred locks with one poll; memory is bounded, others are served."""
    node = Node(program, "--insecure", "--drain", "0s", url="memory://")
    names = [f"crowded/{number}" for number in range(100)]
    blockers = [node.acquire(name, ttl=600) for name in names]
    before = memory_kb(node)
    polls: list[socket.socket] = []
    for client in range(100):
        wants = [{"name": name, "id": new_id(), "ttl": 600} for name in names]
        polls.append(node.begin("wait", {"inbox": f"client-{client}", "wants": wants}))
    eventually(lambda: len(node.inspect(names[-1])["waiters"]) == 100)
    assert memory_kb(node) - before < 80_000
    too_many = node.call(
        "wait", {"inbox": "late", "wants": [{"name": names[0], "id": new_id()}], "hold": 1}
    )
    assert (too_many.status, too_many.problem) == (429, "quota")
    others = node.acquire("others", ttl=60)
    assert node.release(others) == [True]
    assert node.release(blockers[0]) == [True]
    granted = eventually(lambda: [one for one in map(_granted, polls) if one])
    assert len(granted) == 1
    assert node.call("renew", {"leases": [held(granted[0])]}).body["leases"][0]["held"] is True
    for peer in polls:
        peer.close()
    eventually(lambda: node.inspect(names[-1])["waiters"] == [], timeout=400)  # one by one


def _granted(peer: socket.socket) -> dict[str, Any] | None:
    """What a poll was granted, if it has been answered."""
    if peer.fileno() < 0:
        return None
    peer.settimeout(0.001)
    try:
        if not peer.recv(1, socket.MSG_PEEK):
            return None
    except TimeoutError:
        return None
    peer.settimeout(60)
    reply = answer_of(peer)
    assert reply.status == 200, reply
    granted: list[dict[str, Any]] = reply.body["granted"]
    return granted[0] if granted else None
