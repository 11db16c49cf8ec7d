"""Requests that two parsers could read in two ways: refused, and nothing behind them is run."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.service.nodes import Node, new_id

LINE = b"POST /v1/acquire HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
KIND = b"Content-Type: application/json\r\n"
HEAD = LINE + HOST + KIND
HIDDEN = "hidden-{id}"


def inner(name: str) -> bytes:
    """A whole request that must not be run."""
    body = b'{"name": "%s", "ttl": 600}' % name.encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def corpus(name: str) -> dict[str, bytes]:
    """Requests that hide another one from some parser."""
    hidden = inner(name)
    size = len(hidden)
    chunk = b"%x\r\n" % size + hidden + b"\r\n0\r\n\r\n"
    return {
        "a length before chunks": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n" + hidden,
        "chunks before a length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
        b"0\r\n\r\n" + hidden,
        "two lengths, short first": HEAD
        + b"Content-Length: 2\r\nContent-Length: %d\r\n\r\n{}" % (size + 2)
        + hidden,
        "two lengths in one": HEAD + b"Content-Length: 2, 2\r\n\r\n{}" + hidden,
        "a length with a sign": HEAD + b"Content-Length: +2\r\n\r\n{}" + hidden,
        "a length in hex": HEAD + b"Content-Length: 0x2\r\n\r\n{}" + hidden,
        "a length with a space within": HEAD + b"Content-Length: 2 0\r\n\r\n{}" + hidden,
        "a length beyond 64 bits": HEAD
        + b"Content-Length: 18446744073709551618\r\n\r\n{}"
        + hidden,
        "a name with a space": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
        "a name with a tab": HEAD + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + hidden,
        "a name with a NUL": HEAD + b"Transfer\0-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        "a header before the first": LINE + b" X: y\r\n" + HOST + KIND + b"\r\n" + hidden,
        "a folded encoding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + hidden,
        "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + hidden,
        "chunked, then another": HEAD
        + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"
        + hidden,
        "quoted": HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + hidden,
        "an encoding of HTTP/1.0": HEAD.replace(b"1.1", b"1.0")
        + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
        + hidden,
        "a bare CR": HEAD + b"X: y\rContent-Length: 0\r\n\r\n" + hidden,
        "a bare LF": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}" + hidden,
        "a chunk size with a sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + hidden,
        "a chunk size with a prefix": HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n"
        + hidden,
        "a chunk size beyond 64 bits": HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"
        + hidden,
        "a chunk without its end": HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n"
        + hidden,
        "a chunk that ends with LF": HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n"
        + hidden,
        "an extension with a line end": HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n0;a=\nb\r\n\r\n"
        + hidden,
        "no version": b"POST /v1/acquire\r\n" + HOST + KIND + b"\r\n" + hidden,
        "version 2": HEAD.replace(b"1.1", b"2.0") + b"Content-Length: 0\r\n\r\n" + hidden,
        "two hosts": HEAD + b"Host: other\r\nContent-Length: 2\r\n\r\n{}" + hidden,
        "two media types": HEAD + KIND + b"Content-Length: 2\r\n\r\n{}" + hidden,
        "two tokens": HEAD + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"
        b"Content-Length: 2\r\n\r\n{}" + hidden,
        "an upgrade": HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQA"
        b"oAAAAAIAAAAA\r\nContent-Length: 2\r\n\r\n{}" + hidden,
        "a length that is closed": HEAD
        + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
        + hidden,
        "a body of a GET": b"GET /v1/about HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: %d\r\n\r\n" % size
        + hidden,
        "chunks of a GET": b"GET /v1/about HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunk,
        "a connect": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n" + hidden,
        "another site": LINE.replace(b"/v1", b"http://evil.example/v1")
        + b"Host: evil.example\r\n"
        + KIND
        + b"Content-Length: 2\r\n\r\n{}"
        + hidden,
        "a request before the answer": HEAD + b"Content-Length: 2\r\n\r\n{}" + hidden,
    }


@contextlib.contextmanager
def sent(node: Node, data: bytes) -> Iterator[bytes]:
    """What a node answers to this; its client is there until the end."""
    with socket.create_connection((node.host, node.port), 1) as peer:
        try:
            peer.sendall(data)
            answer = peer.recv(65536)
        except OSError:  # it was cut off, or waits for more
            answer = b""
        yield answer


@pytest.mark.parametrize("what", corpus(""))
def test_what_is_hidden_in_a_request_is_not_run(what: str, node: Node) -> None:
    """Neither alone nor behind: no lock of the hidden name is taken, and no answer says 2xx."""
    name = HIDDEN.format(id=new_id())
    with sent(node, corpus(name)[what]) as answer:
        assert b"HTTP/1.1 2" not in answer, answer
        assert node.send("GET", "/healthz").status == 200
        assert node.inspect(name)["holders"] == [], answer


def test_the_hidden_request_is_a_good_one(node: Node) -> None:
    """Else the corpus would show nothing."""
    name = HIDDEN.format(id=new_id())
    with socket.create_connection((node.host, node.port), 60) as peer:
        peer.sendall(inner(name))
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
    assert len(node.inspect(name)["holders"]) == 1
