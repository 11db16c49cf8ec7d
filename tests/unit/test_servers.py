"""The servers, the proxy and the clock that other tests trust: they do what they say."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.clock import Clock
from tests.servers.cluster import Cluster
from tests.servers.link import TO_CLIENT, TO_SERVER
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.resp import Line, ReplyError
from tests.servers.sentinel import Sentinels
from tests.servers.server import Missing, NotStarted, program, until
from tests.servers.shared import shared
from tests.servers.valkey import Valkey

KINDS = [Redis, Valkey]
SOON = 10.0


def plain() -> Redis:
    return Redis()


@pytest.fixture
def redis() -> Redis:
    """One that these tests share and leave as it is."""
    return shared(plain)


@pytest.fixture
def proxy(redis: Redis) -> Iterator[Proxy]:
    with Proxy(redis.port) as proxy:
        yield proxy


def test_a_program_that_is_not_installed_is_told_with_its_package() -> None:
    with pytest.raises(Missing, match="sudo apt-get install unheard-of"):
        program("no-such-program", "unheard-of")


def test_a_server_that_does_not_start_says_why() -> None:
    server = Redis(settings={"maxmemory": "plenty"})
    try:
        with pytest.raises(NotStarted, match="maxmemory plenty"):
            server.start()
    finally:
        server.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_keeps_what_its_persistence_says(kind: type[Redis]) -> None:
    for persistence, kept in [("none", None), ("rdb", "1"), ("everysec", "1"), ("always", "1")]:
        with kind(persistence=persistence) as server:
            assert server.cli("SET", "key", "1") == "OK"
            server.restart()
            assert server.cli("GET", "key") == kept


def test_a_killed_server_loses_what_was_not_written() -> None:
    with Redis(persistence="rdb") as server:
        server.cli("SET", "old", "1")
        server.cli("SAVE")
        server.cli("SET", "new", "1")
        server.kill()
        server.start()
        assert server.cli("MGET", "old", "new") == ["1", None]


def test_a_password_and_the_rules_of_users_are_enforced() -> None:
    with Redis(password="open sesame", users=["reader on >secret ~* +get"]) as server:
        assert server.url == f"redis://:open%20sesame@{server.address}/0"
        with Line(server.port) as line:
            with pytest.raises(ReplyError, match="NOAUTH"):
                line.ask("GET", "key")
            assert line.ask("AUTH", "reader", "secret") == "OK"
            assert line.ask("GET", "key") is None
            with pytest.raises(ReplyError, match="NOPERM"):
                line.ask("SET", "key", "1")


def test_a_server_speaks_tls_with_a_certificate_that_can_be_checked() -> None:
    with Redis(tls=True) as server:
        assert server.tls_url == f"rediss://127.0.0.1:{server.tls_port}/0"
        trust = ssl.create_default_context(cafile=server.certificate)
        with socket.create_connection(("127.0.0.1", server.tls_port), SOON) as plain:
            with trust.wrap_socket(plain, server_hostname="127.0.0.1") as end:
                end.sendall(b"PING\r\n")
                assert end.recv(100) == b"+PONG\r\n"


def test_a_replica_follows_and_can_be_promoted() -> None:
    with Redis(password="a") as primary, Redis(password="a", replica_of=primary) as replica:
        primary.cli("SET", "key", "1")
        assert replica.caught_up().cli("GET", "key") == "1"
        assert replica.role() == "slave"
        replica.promote()
        assert replica.role() == "master"


def test_commands_are_counted_without_those_that_count(redis: Redis) -> None:
    before = redis.commands_processed()
    assert redis.commands_processed() == before
    redis.cli("PING")
    assert redis.commands_processed() == before + 1


def test_calls_are_counted_by_command(redis: Redis) -> None:
    redis.forget_calls()
    redis.cli("SET", "key", "1")
    assert redis.calls()["set"] == 1


def test_every_fresh_url_has_an_empty_database(redis: Redis) -> None:
    urls = {redis.fresh_url() for _ in range(3)}
    assert len(urls) == 3
    with redis.line() as line:
        line.ask("SELECT", urls.pop().rpartition("/")[2])
        assert line.ask("DBSIZE") == 0


def test_a_paused_server_answers_when_it_goes_on() -> None:
    with Redis() as server, server.line(within=0.2) as line:
        server.pause()
        with pytest.raises(TimeoutError):
            line.ask("PING")
        server.resume()
        assert server.cli("PING") == "PONG"


@pytest.mark.parametrize("kind", KINDS)
def test_sentinels_promote_a_replica_when_the_primary_dies(kind: type[Redis]) -> None:
    with Sentinels(make=kind, password="a b") as group:
        old = group.primary()
        old.cli("SET", "key", "1")
        for replica in group.replicas():
            replica.caught_up()
        new = group.fail_over()
        assert new is not old
        assert new.cli("GET", "key") == "1"
        assert new.cli("SET", "key", "2") == "OK"


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_moves_slots_and_survives_a_death(kind: type[Redis]) -> None:
    with Cluster(make=kind) as cluster:
        first = cluster.owner_of("key")
        first.cli("SET", "key", "1")
        second = next(node for node in cluster.primaries() if node is not first)
        with pytest.raises(ReplyError, match="MOVED"):
            second.cli("GET", "key")
        cluster.move("key", second)
        with pytest.raises(ReplyError, match="MOVED"):
            first.cli("GET", "key")
        assert second.cli("GET", "key") == "1"
        third = cluster.fail_over("key")
        assert third not in (first, second)
        assert third.cli("GET", "key") == "1"


@pytest.mark.parametrize("kind", KINDS)
def test_the_clock_of_a_running_server_can_be_stepped(kind: type[Redis], tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    server = kind()
    server.environment |= clock.environment
    with server:
        server.cli("SET", "key", "1", "PX", 600_000)
        begin = server.time()
        clock.step(-3600)
        until(lambda: server.time() < begin - 3500, "an hour back")
        assert server.cli("GET", "key") == "1"
        clock.step(7200)
        until(lambda: server.time() > begin + 3500, "an hour ahead")
        assert server.time() < begin + 3700
        assert server.cli("GET", "key") is None


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
    with Line(proxy.port) as other, Line(proxy.port, within=0.3) as line:
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
