"""Bad input, each with the problem that answers it, and the node goes on serving."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.service.nodes import Node, new_id

JSON = {"Content-Type": "application/json"}
ID = "a" * 22


@pytest.fixture(autouse=True)
def serves(node: Node) -> Iterator[None]:
    """Whatever was sent, others are served as before, and nothing was locked."""
    yield
    assert node.call("locks").body["locks"] == []
    assert node.send("GET", "/healthz").status == 200


WRONG: dict[str, tuple[str, object]] = {
    "no name": ("acquire", {}),
    "an empty name": ("acquire", {"name": ""}),
    "a name that is no text": ("acquire", {"name": 5}),
    "a long name": ("acquire", {"name": "é" * 257}),
    "a control character": ("acquire", {"name": "a\nb"}),
    "a name that is not normal": ("acquire", {"name": "e\u0301"}),
    "an unknown member": ("acquire", {"name": "a", "timeout": 5}),
    "a short id": ("acquire", {"name": "a", "id": "a" * 21}),
    "a long id": ("acquire", {"name": "a", "id": "a" * 65}),
    "an id of other characters": ("acquire", {"name": "a", "id": "a" * 21 + "/"}),
    "an id with an end of line": ("acquire", {"name": "a", "id": "a" * 22 + "\n"}),
    "no ttl": ("acquire", {"name": "a", "ttl": 0}),
    "a negative ttl": ("acquire", {"name": "a", "ttl": -1}),
    "a ttl above the limit": ("acquire", {"name": "a", "ttl": 3601}),
    "a ttl that is a text": ("acquire", {"name": "a", "ttl": "30s"}),
    "a long wait": ("acquire", {"name": "a", "wait": 56}),
    "deep meta": ("acquire", {"name": "a", "meta": {"a": {"b": 1}}}),
    "large meta": ("acquire", {"name": "a", "meta": {"a": "x" * 5000}}),
    "an unknown safety": ("acquire", {"name": "a", "safety": "perfect"}),
    "an unknown role": ("acquire", {"name": "a", "role": "king"}),
    "a semaphore without limit": ("acquire", {"name": "a", "role": "semaphore"}),
    "a limit of a lock": ("acquire", {"name": "a", "limit": 3}),
    "a list": ("acquire", [1]),
    "nothing to renew": ("renew", {"leases": []}),
    "too much to renew": (
        "renew",
        {"leases": [{"name": "a", "id": ID, "fence": 1}] * 1001},
    ),
    "a fence of zero": ("renew", {"leases": [{"name": "a", "id": ID, "fence": 0}]}),
    "a fence beyond 2**53": ("release", {"leases": [{"name": "a", "id": ID, "fence": 2**53}]}),
    "a revocation without reason": ("revoke", {"name": "a", "reason": ""}),
    "a blank reason": ("revoke", {"name": "a", "reason": "   "}),
    "no wants": ("wait", {"inbox": "i", "wants": []}),
    "no inbox": ("wait", {"wants": [{"name": "a", "id": ID}]}),
    "a want without id": ("wait", {"inbox": "i", "wants": [{"name": "a"}]}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_value_that_is_not_allowed_is_invalid(what: str, node: Node) -> None:
    reply = node.call(*WRONG[what])
    assert (reply.status, reply.problem) == (422, "invalid")
    assert reply.body["may_have_happened"] is False


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"name=a",
    "cut short": b'{"name": "a"',
    "two of them": b'{"name": "a"}{"name": "b"}',
    "NaN": b'{"name": "a", "ttl": NaN}',
    "a number beyond all bounds": b'{"name": "a", "ttl": 1e400}',
    "no UTF-8": b'{"name": "\xff"}',
    "a lone surrogate": b'{"name": "\\ud800"}',
    "brackets without end": b"[" * 100_000,
    "objects without end": b'{"meta":' * 100_000,
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_body_that_cannot_be_read_is_refused(what: str, node: Node) -> None:
    reply = node.send("POST", "/v1/acquire", UNREADABLE[what], JSON)
    assert (reply.status, reply.problem) in [(400, "malformed"), (422, "invalid")]
    assert reply.body["may_have_happened"] is False


REQUESTS: dict[str, tuple[str, str, dict[str, str], int, str]] = {
    "an unknown path": ("GET", "/v1/locked", {}, 404, "not-found"),
    "a path with a slash too many": ("POST", "/v1/acquire/", JSON, 404, "not-found"),
    "a path that goes up": ("POST", "/v1/x/../acquire", JSON, 404, "not-found"),
    "another method": ("GET", "/v1/acquire", {}, 405, "method-not-allowed"),
    "a form": (
        "POST",
        "/v1/acquire",
        {"Content-Type": "application/x-www-form-urlencoded"},
        415,
        "unsupported-media-type",
    ),
    "no media type": ("POST", "/v1/acquire", {}, 415, "unsupported-media-type"),
    "a compressed body": (
        "POST",
        "/v1/acquire",
        {**JSON, "Content-Encoding": "gzip"},
        415,
        "unsupported-media-type",
    ),
    "another host": ("GET", "/v1/about", {"Host": "evil.example"}, 421, "wrong-host"),
    "a token in the URL": ("GET", "/v1/about?token=x", {}, 400, "malformed"),
    "a long URL": ("GET", "/v1/locks?prefix=" + "a" * 5000, {}, 414, "uri-too-long"),
    "an unknown parameter": ("GET", "/v1/locks?prefx=a", {}, 400, "malformed"),
    "a parameter twice": ("GET", "/v1/locks?prefix=a&prefix=b", {}, 400, "malformed"),
    "a page of nothing": ("GET", "/v1/locks?limit=0", {}, 422, "invalid"),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_that_is_none_of_ours_is_refused(what: str, node: Node) -> None:
    method, path, headers, status, kind = REQUESTS[what]
    reply = node.send(method, path, b"{}" if method == "POST" else None, headers)
    assert (reply.status, reply.problem) == (status, kind)
    if status == 405:
        assert reply.headers["allow"] == "POST"


def test_a_body_that_is_too_large_is_not_read(node: Node) -> None:
    with socket.create_connection((node.host, node.port), 60) as peer:
        head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        peer.sendall(head + b"Content-Length: 1000000000\r\n\r\n")
        assert peer.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_in_pieces_is_counted(node: Node) -> None:
    with socket.create_connection((node.host, node.port), 60) as peer:
        head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(100):
                peer.sendall(piece)
        except OSError:
            pass  # it was refused before all was sent
        assert peer.recv(4096).startswith(b"HTTP/1.1 413")


HEADS = {
    "one header without end": [b"X: " + b"a" * 10_000] * 8,
    "headers without end": [b"X: a\r\n" * 5_000] * 8,
    "a URL without end": [b"a" * 10_000] * 8,
}


@pytest.mark.parametrize("what", HEADS)
def test_headers_that_do_not_end_are_refused(what: str, node: Node) -> None:
    with socket.create_connection((node.host, node.port), 60) as peer:
        peer.sendall(b"GET /" + (b"" if "URL" in what else b" HTTP/1.1\r\nHost: localhost\r\n"))
        try:
            for piece in HEADS[what]:
                peer.sendall(piece)
            answer = peer.recv(4096)
        except OSError:
            answer = b""  # what was sent beyond the answer has reset the connection
        assert answer.startswith(b"HTTP/1.1 431") or not answer


def test_a_long_body_is_no_header(node: Node) -> None:
    meta = {"meta": {"a": "x" * 4_000}}
    wants = [{"name": f"long{n}", "id": new_id(), **meta} for n in range(100)]
    granted = node.call("wait", {"inbox": "i", "wants": wants}).body["granted"]
    assert len(granted) == 100
    assert node.release(*granted) == [True] * 100


SMUGGLED = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "a length in words": b"Content-Length: two\r\n\r\n{}",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
    "a folded header": b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "two hosts": b"Host: other\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL in a header": b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "chunks that are no numbers": b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("what", SMUGGLED)
def test_a_request_that_two_parsers_would_read_in_two_ways_is_refused(
    what: str, node: Node
) -> None:
    with socket.create_connection((node.host, node.port), 60) as peer:
        head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        peer.sendall(head + SMUGGLED[what])
        assert peer.recv(4096).startswith(b"HTTP/1.1 4")


def test_names_are_opaque(node: Node) -> None:
    odd = ["..", "a/../b", "%2F", "'; DROP TABLE locks; --", "<img onerror=x>", "{}", "é", "🔒"]
    leases = [node.acquire(name, id=new_id()) for name in odd]
    assert [lease["name"] for lease in leases] == odd
    assert sorted(one["name"] for one in node.call("locks").body["locks"]) == sorted(odd)
    assert node.release(*leases) == [True] * len(odd)


def test_answers_forbid_other_sites_and_caches(node: Node) -> None:
    reply = node.send("GET", "/v1/about", None, {"Origin": "https://evil.example"})
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert not {"access-control-allow-origin", "set-cookie", "server"} & reply.headers.keys()
    assert json.dumps(reply.body)
