"""What the guard of Redis does with keys and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
import redis.asyncio

from fencelock import StaleFence, UsageError
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from fencelock.guards.redis.script import key_of
from tests.servers.redis import Redis
from tests.servers.shared import shared

NAME = "seat"


@pytest.fixture
def client() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        yield client


@pytest.fixture
def guard(client: redis.Redis) -> RedisGuard:
    return RedisGuard(client)


def test_every_operation_is_one_round_trip(guard: RedisGuard) -> None:
    server = shared(Redis)
    guard.enter(1, name=NAME)  # connected
    guard.set("key", "value", 1, name=NAME)
    guard.get("key", 1, name=NAME)
    server.forget_calls()
    guard.enter(2, name=NAME)
    guard.set("key", "value", 2, name=NAME)
    guard.get("key", 2, name=NAME)
    assert server.calls()["evalsha"] == 3
    assert "eval" not in server.calls()


def test_a_server_that_forgot_its_scripts_is_told_again(
    guard: RedisGuard, client: redis.Redis
) -> None:
    """By SCRIPT FLUSH, or because it is a new primary."""
    guard.set("key", "one", 1, name=NAME)
    client.script_flush()
    guard.set("key", "two", 1, name=NAME)
    assert client.get("key") == b"two"


def test_set_takes_the_options_of_redis(guard: RedisGuard, client: redis.Redis) -> None:
    assert guard.set("key", b"\x00\xff", 1, name=NAME, ex=100)
    assert client.get("key") == b"\x00\xff"
    assert 90 < client.ttl("key") <= 100
    assert guard.set("key", 5, 1, name=NAME, keepttl=True)
    assert client.ttl("key") > 0
    assert guard.set("key", 1.5, 1, name=NAME, px=timedelta(seconds=50))
    assert 40 < client.ttl("key") <= 50
    assert guard.set("key", "v", 1, name=NAME)
    assert client.ttl("key") == -1
    assert not guard.set("key", "w", 1, name=NAME, nx=True)
    assert not guard.set("none", "w", 1, name=NAME, xx=True)
    assert client.get("key") == b"v"


def test_options_that_contradict_each_other_are_refused(guard: RedisGuard) -> None:
    with pytest.raises(UsageError):
        guard.set("key", "v", 1, name=NAME, ex=1, px=1)
    with pytest.raises(UsageError):
        guard.set("key", "v", 1, name=NAME, nx=True, xx=True)


def test_a_value_that_redis_cannot_store_is_refused(guard: RedisGuard) -> None:
    with pytest.raises(UsageError):
        guard.set("key", ["a", "list"], 1, name=NAME)  # type: ignore[arg-type]
    guard.set("key", "v", 1, name=NAME)  # over the same connection


def test_a_guarded_read_raises_the_mark(guard: RedisGuard) -> None:
    assert guard.get("key", 1, name=NAME) is None
    guard.set("key", "v", 2, name=NAME)
    assert guard.get("key", 3, name=NAME) == b"v"
    with pytest.raises(StaleFence):
        guard.set("key", "w", 2, name=NAME)


def test_a_script_of_ones_own_sees_its_own_keys_and_arguments(
    guard: RedisGuard, client: redis.Redis
) -> None:
    script = """
    local total = redis.call('INCRBY', KEYS[1], ARGV[1])
    redis.call('RPUSH', KEYS[2], ARGV[2])
    return {total, #KEYS, #ARGV}
    """
    assert guard.eval(script, ["sum", "log"], [5, "first"], 1, name=NAME) == [5, 2, 2]
    guard.enter(3, name=NAME)
    with pytest.raises(StaleFence):
        guard.eval(script, ["sum", "log"], [5, "late"], 2, name=NAME)
    assert client.get("sum") == b"5"
    assert client.lrange("log", 0, -1) == [b"first"]


def test_a_script_that_declares_itself_stays_first(guard: RedisGuard) -> None:
    assert guard.eval("#!lua flags=no-cluster\nreturn 7", [], [], 1, name=NAME) == 7


def test_errors_of_a_script_are_its_own_with_its_own_lines(guard: RedisGuard) -> None:
    with pytest.raises(redis.ResponseError, match="user_script:3"):
        guard.eval("local a = 1\nlocal b = 2\nreturn a.b.c", [], [], 1, name=NAME)
    with pytest.raises(redis.ResponseError, match="MINE of the caller"):
        guard.eval("return redis.error_reply('MINE of the caller')", [], [], 1, name=NAME)


def test_one_text_is_no_list_of_keys(guard: RedisGuard) -> None:
    with pytest.raises(UsageError):
        guard.eval("return 1", "key", [], 1, name=NAME)


def test_a_mark_with_a_time_to_live_ages_from_its_last_use(client: redis.Redis) -> None:
    guard = RedisGuard(client, marks_ttl=1000)
    key = key_of("fencelock:mark:", NAME)
    guard.enter(5, name=NAME)
    client.pexpire(key, 500_000)
    guard.enter(5, name=NAME)
    assert 900_000 < client.pttl(key) <= 1_000_000
    client.pexpire(key, 1)
    while client.exists(key):
        pass  # until Redis has seen that its time is over
    guard.enter(1, name=NAME)  # as documented: what is forgotten cannot be refused


def test_a_mark_is_kept_for_ever_by_default(guard: RedisGuard, client: redis.Redis) -> None:
    guard.enter(5, name=NAME)
    assert client.ttl(key_of("fencelock:mark:", NAME)) == -1


@pytest.mark.parametrize("ttl", [0, 0.5, -1, True, "10"], ids=repr)
def test_a_time_to_live_that_is_none_is_refused(client: redis.Redis, ttl: float) -> None:
    with pytest.raises(UsageError):
        RedisGuard(client, marks_ttl=ttl)


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", None], ids=repr)
def test_a_prefix_that_hides_the_hash_tag_is_refused(client: redis.Redis, prefix: str) -> None:
    with pytest.raises(UsageError):
        RedisGuard(client, prefix=prefix)


def test_each_flavor_takes_its_own_kind_of_client() -> None:
    for guard, client in (
        (RedisGuard, redis.asyncio.Redis()),
        (RedisGuard, "redis://localhost"),
        (AsyncRedisGuard, redis.Redis()),
        (AsyncRedisGuard, None),
    ):
        with pytest.raises(UsageError, match="takes a client of redis"):
            cast("Any", guard)(client)


def test_guards_with_other_prefixes_do_not_meet(client: redis.Redis) -> None:
    RedisGuard(client, prefix="one[*]:").enter(9, name=NAME)
    other = RedisGuard(client, prefix="two:")
    other.enter(1, name=NAME)
    client.set("one[*]:{seat}", f"{9:019} 0")
    assert other.forget(3600) == 0
    assert RedisGuard(client, prefix="one[*]:").forget(3600) == 1


def test_no_two_names_share_a_key() -> None:
    names = ["a", "{a}", "~{a}", "%{a}", "a}b", "%7Bb", "a%7Db", "{}a", "x{a}", "a{b", "}", "%7D"]
    keys = [key_of("p:", name) for name in names]
    assert len(set(keys)) == len(names)
