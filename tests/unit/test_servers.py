"""The servers and the clock that other tests trust: they do what they say."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.clock import Clock
from tests.servers.cluster import Cluster
from tests.servers.redis import Redis
from tests.servers.resp import Line, ReplyError
from tests.servers.sentinel import Sentinels
from tests.servers.server import SHARES, Missing, NotStarted, free_port, program, until
from tests.servers.shared import shared
from tests.servers.valkey import Valkey

ROOT = Path(__file__).parents[2]
KINDS = [Redis, Valkey]
SOON = 10.0


def plain() -> Redis:
    return Redis()


@pytest.fixture
def redis() -> Redis:
    """One that these tests share and leave as it is."""
    return shared(plain)


def test_a_program_that_is_not_installed_is_told_with_its_package() -> None:
    with pytest.raises(Missing, match="sudo apt-get install unheard-of"):
        program("no-such-program", "unheard-of")


def test_processes_that_start_servers_at_the_same_time_never_get_the_same_port() -> None:
    ours = free_port()
    say_one = "from tests.servers.server import free_port; print(free_port())"
    other = subprocess.run(
        [sys.executable, "-c", say_one], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(other.stdout) % SHARES != ours % SHARES


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
