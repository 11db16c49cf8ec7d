"""Connections to a host of several addresses: one deadline for all of them, and for TLS."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest

import fencelock
from fencelock.wires import tcp

HOST = "locks.internal"
ADDRESSES = 20
TIMEOUT_S = 1.0  # of a call; each address in turn would take it ADDRESSES times
SLACK_S = 9.0


class Host:
    """The addresses to which the name of the host resolves."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.port = 0
        self._addresses: list[str] = []

    def add(self, backlog: int) -> socket.socket:
        """Add an address that listens."""
        self._addresses.append(f"127.0.0.{len(self._addresses) + 1}")
        listener = self._stack.enter_context(socket.socket())
        listener.bind((self._addresses[-1], self.port))
        listener.listen(backlog)
        self.port = listener.getsockname()[1]
        return listener

    def add_silent(self) -> None:
        """Add an address whose backlog is full, so that the kernel drops every SYN."""
        where = self.add(0).getsockname()
        for _ in range(6):
            waiting = self._stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(where)

    def resolve(self, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (address, self.port)) for address in self._addresses]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with ExitStack() as stack:
        host = Host(stack)
        resolve = socket.getaddrinfo

        def found(name: Any, *more: Any, **named: Any) -> Any:
            return host.resolve() if name == HOST else resolve(name, *more, **named)

        monkeypatch.setattr(socket, "getaddrinfo", found)
        yield host


def lasted(url: str) -> float:
    """Return how long a call takes that cannot succeed."""
    client = fencelock.connect(url)
    try:
        began = monotonic()
        with pytest.raises(fencelock.Unavailable):
            client.lock("a", ttl=30, timeout=TIMEOUT_S).acquire()
        return monotonic() - began
    finally:
        client.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://{}",
        "https://{}",
        "etcd://{}",
        "etcd://{}?tls=yes",
        "consul://{}",
        "mysql://{}/locks",
        "zookeeper://{}",
    ],
)
def test_a_call_to_a_host_of_many_silent_addresses_ends_in_time(host: Host, url: str) -> None:
    for _ in range(ADDRESSES):
        host.add_silent()
    assert lasted(url.format(f"{HOST}:{host.port}")) < TIMEOUT_S + SLACK_S


def test_the_addresses_of_a_host_share_the_time(host: Host) -> None:
    """One that is silent leaves time for the next, which is the one that serves."""
    host.add_silent()
    host.add_silent()
    listener = host.add(5)
    with tcp.connect(HOST, host.port, monotonic() + SLACK_S) as sock:
        assert sock.getpeername() == listener.getsockname()


def test_an_address_that_refuses_leaves_its_time_to_the_next(host: Host) -> None:
    host.add(5).close()
    listener = host.add(5)
    with tcp.connect(HOST, host.port, monotonic() + SLACK_S) as sock:
        assert sock.getpeername() == listener.getsockname()


def test_a_host_whose_addresses_all_refuse_says_so(host: Host) -> None:
    host.add(5).close()
    host.add(5).close()
    with pytest.raises(ConnectionRefusedError):
        tcp.connect(HOST, host.port, monotonic() + SLACK_S)


def test_the_handshake_has_what_connecting_has_left(host: Host) -> None:
    """A server that accepts and is silent then: its timeout is no second one."""
    host.add(5)
    deadline = monotonic() + SLACK_S
    with tcp.connect(HOST, host.port, deadline) as sock:
        tcp.limit(sock, deadline)
        left = sock.gettimeout()
        assert left is not None
        assert left <= deadline - monotonic() + SLACK_S
        tcp.limit(sock, monotonic() + 0.01)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        with pytest.raises(TimeoutError):
            tcp.limit(sock, monotonic())
