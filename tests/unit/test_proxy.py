"""The proxy that other tests trust: it counts what it says, and breaks what it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.servers.link import TO_CLIENT, TO_SERVER
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.resp import Line
from tests.servers.server import until
from tests.servers.shared import shared

SOON = 10.0


@pytest.fixture
def redis() -> Redis:
    return shared(Redis)


@pytest.fixture
def proxy(redis: Redis) -> Iterator[Proxy]:
    with Proxy(redis.port) as proxy:
        yield proxy


def test_a_proxy_counts_round_trips_and_not_commands(redis: Redis, proxy: Proxy) -> None:
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"
        proxy.count_from_now()
        assert (proxy.requests, proxy.sent, proxy.received) == (0, 0, 0)
        for _ in range(3):
            line.send("PING")
        until(lambda: proxy.sent == 3 * len("*1\r\n$4\r\nPING\r\n"), "the proxy to pass it on")
        assert [line.read() for _ in range(3)] == ["PONG"] * 3
        assert line.ask("PING") == "PONG"
        assert proxy.received == 4 * len("+PONG\r\n")
        assert 2 <= proxy.requests <= 4  # a pipeline may meet an answer half way
        assert proxy.connections == 0
    with Line(proxy.port):
        until(lambda: proxy.connections == 1, "the second connection")
    until(lambda: proxy.open == 0, "both connections to end")


def test_one_write_is_one_request_however_many_commands_it_has(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), SOON) as end:
        end.sendall(b"PING\r\n" * 10)
        received = b""
        while len(received) < 10 * len(b"+PONG\r\n"):
            received += end.recv(1000)
        assert proxy.requests == 1


@pytest.mark.parametrize("ways", [(TO_SERVER,), (TO_CLIENT,), ()])
def test_blocked_bytes_wait_and_the_connection_stays(
    redis: Redis, proxy: Proxy, ways: tuple[str, ...]
) -> None:
    redis.cli("DEL", "key")
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"
        proxy.block(*ways)
        line.send("INCR", "key")
        until(proxy.waiting, "something to wait")
        assert redis.cli("GET", "key") == ("1" if ways == (TO_CLIENT,) else None)
        proxy.heal()
        assert line.read() == 1
        assert line.ask("INCR", "key") == 2
    assert proxy.connections == 1


def test_a_cut_resets_and_refuses_until_it_is_healed(proxy: Proxy) -> None:
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"
        proxy.cut()
        with pytest.raises(ConnectionError):
            line.ask("PING")
    with pytest.raises(ConnectionError), Line(proxy.port) as line:
        line.ask("PING")
    proxy.heal()
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"
        proxy.reset()
        with pytest.raises(ConnectionError):
            line.ask("PING")
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"


def test_a_delay_holds_up_both_directions(proxy: Proxy) -> None:
    with Line(proxy.port) as line:
        assert line.ask("PING") == "PONG"
        proxy.delay(0.05)
        before = time.monotonic()
        assert line.ask("PING") == "PONG"
        assert time.monotonic() - before >= 0.1  # at least: there is no upper bound to assert


@pytest.mark.parametrize("then_cut", [True, False])
def test_a_lost_reply_was_executed_and_is_never_heard(
    redis: Redis, proxy: Proxy, then_cut: bool
) -> None:
    redis.cli("DEL", "key", "other")
    with Line(proxy.port) as other, Line(proxy.port, within=1.0) as line:
        assert line.ask("PING") == "PONG"
        proxy.lose_next_reply(b"INCR", then_cut=then_cut)
        assert other.ask("GET", "other") is None
        with pytest.raises(ConnectionError if then_cut else TimeoutError):
            line.ask("INCR", "key")
        assert other.ask("INCR", "other") == 1
    assert redis.cli("GET", "key") == "1"
    assert proxy.lost == 1


def test_a_push_is_no_reply_that_could_be_lost(redis: Redis, proxy: Proxy) -> None:
    with Line(proxy.port) as inbox, Line(proxy.port) as line:
        assert inbox.ask("SUBSCRIBE", "news")[0] == "subscribe"
        proxy.lose_next_reply()
        assert redis.cli("PUBLISH", "news", "1") == 1
        assert inbox.read() == ["message", "news", "1"]
        with pytest.raises(ConnectionError):
            line.ask("PING")


def test_a_proxy_passes_large_answers_and_ends_whole(redis: Redis, proxy: Proxy) -> None:
    redis.cli("SET", "large", "x" * 3_000_000)
    with Line(proxy.port) as line:
        assert len(line.ask("GET", "large")) == 3_000_000
        line.send("QUIT")
        assert line.read() == "OK"
        with pytest.raises(ConnectionError):
            line.read()
    until(lambda: proxy.open == 0, "the connection to end")


def test_a_proxy_serves_many_at_once(proxy: Proxy) -> None:
    seen: list[str] = []

    def talk(number: int) -> None:
        with Line(proxy.port) as line:
            seen.extend(line.ask("ECHO", f"{number}") for _ in range(50))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert sorted(seen) == sorted(f"{number}" for number in range(8) for _ in range(50))
    assert proxy.connections == 8
    assert proxy.requests == 8 * 50


def test_nobody_is_behind_a_proxy_whose_server_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Proxy(port) as proxy, pytest.raises(ConnectionError), Line(proxy.port) as line:
        line.ask("PING")
