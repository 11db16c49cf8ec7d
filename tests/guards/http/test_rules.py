"""Which requests reach the application, and what the others are told; in both flavors."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from fencelock import OutcomeUnknown, StaleFence, UsageError
from fencelock.guards.http import (
    MemoryMarks,
    SqlMarks,
    asgi,
    fencing_headers,
    raise_if_stale,
    wsgi,
)
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from tests.guards.http.calls import Flavor, Reply, call
from tests.servers.redis import Redis
from tests.servers.server import free_port
from tests.servers.shared import shared


@pytest.fixture(params=["asgi", "wsgi"])
def flavor(request: pytest.FixtureRequest) -> Flavor:
    return Flavor(request.param)


def test_a_fence_is_required_of_whoever_writes(flavor: Flavor) -> None:
    flavor.make()
    for method in ("PUT", "POST", "PATCH", "DELETE", "INVENTED"):
        reply = flavor.send(method, "/seat")
        assert reply.status == 428
        assert reply.problem["type"] == "urn:fencelock:problem:fence-required"
        assert "Fencing-Token" in reply.problem["detail"]
    assert flavor.reached == []


def test_equal_and_higher_fences_reach_the_application(flavor: Flavor) -> None:
    flavor.make()
    assert [flavor.put(fence).status for fence in (5, 5, 6)] == [200, 200, 200]
    assert flavor.reached == [(5, "/seat"), (5, "/seat"), (6, "/seat")]


def test_a_stale_fence_is_told_the_numbers(flavor: Flavor) -> None:
    flavor.make()
    flavor.put(6)
    reply = flavor.put(5)
    assert reply.status == 412
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.problem["type"] == "urn:fencelock:problem:stale-fence"
    assert (reply.problem["offered"], reply.problem["highest"]) == (5, 6)
    assert flavor.reached == [(6, "/seat")]


def test_readers_overlap_and_are_refused_by_writers_only(flavor: Flavor) -> None:
    marks = MemoryMarks()
    flavor.make(marks, reads=True)
    reader, writer = {"Fencing-Role": "read"}, {"Fencing-Role": "write"}

    def get(fence: int, role: dict[str, str]) -> Reply:
        headers = {"Fencing-Token": str(fence), **role}
        return flavor.send("GET", "/seat", *headers.items())

    assert [get(fence, reader).status for fence in (7, 6)] == [200, 200]
    assert marks.mark("/seat", reading=True) == 0
    refused = flavor.put(6)
    assert refused.status == 412
    assert (refused.problem["highest"], refused.problem["seen"]) == (7, "read")
    with pytest.raises(StaleFence) as caught:
        raise_if_stale(refused.status, refused.body, 6)
    assert caught.value.seen == "read"
    assert get(8, writer).status == 200
    assert get(7, reader).problem["seen"] == "write"
    assert [fence for fence, _ in flavor.reached] == [7, 6, 8]


def test_a_read_lock_does_not_write(flavor: Flavor) -> None:
    flavor.make(reads=True)
    reply = flavor.send("PUT", "/seat", *fencing_headers(7, reading=True).items())
    assert reply.status == 400
    assert "read lock" in reply.problem["detail"]
    assert flavor.reached == []


def test_a_store_that_knows_no_readers_has_them_refused(flavor: Flavor) -> None:
    class Plain:
        """As stores were before there were readers."""

        epoch = 0
        blocks = False

        def __init__(self) -> None:
            self._marks = MemoryMarks()

        def enter(self, lease: int, /, *, name: str) -> None:
            self._marks.enter(lease, name=name)

        def mark(self, name: str) -> int:
            return self._marks.mark(name)

    flavor.make(Plain(), reads=True)
    assert flavor.put(5).status == 200
    reply = flavor.send("GET", "/seat", *fencing_headers(7, reading=True).items())
    assert reply.status == 400
    assert "readers" in reply.problem["detail"]
    assert flavor.put(4).problem["seen"] == "write"


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "+1", "0", "1.5", "0x1", "1_0", "\u0661", "1, 2", "1 2", str(2**53), "9" * 999],
)
def test_what_is_no_fence_is_a_bad_request(flavor: Flavor, text: str) -> None:
    flavor.make()
    reply = flavor.put(text)
    assert reply.status == 400
    assert reply.problem["type"] == "urn:fencelock:problem:malformed-fence"
    assert flavor.reached == []


def test_the_largest_fence_and_blanks_around_it_are_read(flavor: Flavor) -> None:
    flavor.make()
    assert flavor.put(f" {2**53 - 1} ").status == 200


def test_the_older_name_of_the_header_is_known_but_only_one_may_be_given(flavor: Flavor) -> None:
    flavor.make()
    assert flavor.send("PUT", "/seat", ("X-Fencing-Token", "5")).status == 200
    assert flavor.send("PUT", "/seat", ("x-fencing-token", "4")).status == 412
    both = (("Fencing-Token", "6"), ("X-Fencing-Token", "6"))
    assert flavor.send("PUT", "/seat", *both).status == 400
    twice = (("Fencing-Token", "6"), ("Fencing-Token", "6"))
    assert flavor.send("PUT", "/seat", *twice).status == 400


def test_reading_is_free_by_default(flavor: Flavor) -> None:
    flavor.make()
    flavor.put(5)
    for method in ("GET", "HEAD", "OPTIONS", "TRACE"):
        assert flavor.send(method, "/seat", ("Fencing-Token", "1")).status == 200
    assert flavor.reached[1:] == [(None, None)] * 4


def test_reading_counts_if_told_so(flavor: Flavor) -> None:
    """H04"""
    flavor.make(reads=True)
    assert flavor.send("GET", "/seat").status == 200
    assert flavor.send("GET", "/seat", ("Fencing-Token", "5")).status == 200
    assert flavor.put(4).status == 412
    assert flavor.send("GET", "/seat", ("Fencing-Token", "4")).status == 412


def test_methods_can_be_chosen(flavor: Flavor) -> None:
    flavor.make(methods=["get", "POST"])
    assert flavor.send("GET", "/seat").status == 428
    assert flavor.send("POST", "/seat").status == 428
    assert flavor.send("PUT", "/seat").status == 200


def test_resources_do_not_know_each_other(flavor: Flavor) -> None:
    flavor.make()
    assert flavor.put(9, "/one").status == 200
    assert flavor.put(1, "/mañana").status == 200
    assert flavor.reached[1] == (1, "/mañana")


def test_what_the_key_says_is_the_resource(flavor: Flavor) -> None:
    def key(path: str) -> str | None:
        return None if path == "/free" else "seats"

    flavor.make(key=key)
    assert flavor.send("PUT", "/free").status == 200
    assert flavor.put(9, "/one").status == 200
    assert flavor.put(8, "/two").status == 412
    assert flavor.reached == [(None, None), (9, "seats")]


def test_fences_of_another_lock_are_refused_where_names_must_match(flavor: Flavor) -> None:
    flavor.make(key=lambda path: "seat:1ä", match_name=True)

    def put(headers: dict[str, str]) -> int:
        return flavor.send("PUT", "/seat", *headers.items()).status

    assert put(fencing_headers(5, name="seat:1ä")) == 200
    assert put(fencing_headers(6, name="seat:2")) == 400
    assert put(fencing_headers(6)) == 400
    assert flavor.reached == [(5, "seat:1ä")]


def unreachable_redis() -> RedisGuard:
    return RedisGuard(redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)))


def unreachable_sql() -> SqlMarks:
    return SqlMarks(lambda: sqlite3.connect("/nonexistent/folder/secret.db"))


def doubtful() -> Any:
    class Doubtful:
        epoch = 0

        def enter(self, fence: int, *, name: str) -> None:
            raise OutcomeUnknown

        def mark(self, name: str) -> int:
            raise OutcomeUnknown

    return Doubtful()


@pytest.mark.parametrize("authorize", [None, lambda _: True], ids=["", "authorized"])
@pytest.mark.parametrize("store", [unreachable_redis, unreachable_sql, doubtful])
def test_without_its_marks_the_guard_lets_nobody_in(
    flavor: Flavor, store: Callable[[], Any], caplog: pytest.LogCaptureFixture, authorize: Any
) -> None:
    flavor.make(store(), authorize=authorize)
    with caplog.at_level(logging.ERROR, "fencelock"):
        reply = flavor.put(5)
    assert reply.status == 503
    assert reply.headers["retry-after"] == "1"
    assert reply.problem["type"] == "urn:fencelock:problem:guard-unavailable"
    assert "secret" not in reply.body.decode()
    assert flavor.reached == []
    assert "marks cannot be reached" in caplog.text


def test_a_busy_database_lets_nobody_in(flavor: Flavor, tmp_path: Path) -> None:
    path = tmp_path / "marks.db"
    marks = SqlMarks(lambda: sqlite3.connect(path, timeout=0.01, check_same_thread=False))
    marks.create()
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    flavor.make(marks)
    assert flavor.put(5).status == 503
    other.rollback()
    other.close()
    assert flavor.put(5).status == 200
    assert flavor.reached == [(5, "/seat")]
    assert flavor.put(6, "/" + "long" * 200).status == 400  # more than a name can have
    assert flavor.put(4).status == 412
    marks.close()


@pytest.fixture
def redis_marks() -> Iterator[RedisGuard]:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        yield RedisGuard(client)


def test_marks_in_redis_are_shared_by_all_processes(
    flavor: Flavor, redis_marks: RedisGuard
) -> None:
    flavor.make(redis_marks)
    assert flavor.put(6).status == 200
    other = Flavor(flavor.name).make(redis_marks)
    assert other.put(5).status == 412


def test_marks_in_a_database_are_shared_by_all_processes(flavor: Flavor, tmp_path: Path) -> None:
    def marks() -> SqlMarks:
        path = tmp_path / "marks.db"
        found = SqlMarks(lambda: sqlite3.connect(path, timeout=10, check_same_thread=False))
        found.create()
        return found

    one, two = marks(), marks()
    assert flavor.make(one).put(6).status == 200
    assert Flavor(flavor.name).make(two).put(5).status == 412
    assert Flavor(flavor.name).make(two).put(6).status == 200
    one.close()
    two.close()


async def _asyncio_marks() -> None:
    async with redis.asyncio.Redis.from_url(shared(Redis).fresh_url()) as client:
        flavor = Flavor("asgi").make(AsyncRedisGuard(client))
        five, six = (("Fencing-Token", "5"),), (("Fencing-Token", "6"),)
        assert (await call(flavor.asgi, "PUT", "/seat", six)).status == 200
        assert (await call(flavor.asgi, "PUT", "/seat", five)).status == 412


def test_marks_of_asyncio_are_awaited() -> None:
    asyncio.run(_asyncio_marks())


def test_marks_of_asyncio_are_no_marks_for_wsgi() -> None:
    guard: Any = AsyncRedisGuard(redis.asyncio.Redis())
    with pytest.raises(UsageError, match="asyncio"):
        wsgi.FencingMiddleware(lambda *_: [], guard)


@pytest.mark.parametrize(
    "wrong", [{"methods": "PUT"}, {"hold_timeout": 0}, {"hold_timeout": True}], ids=str
)
def test_options_that_are_none_are_refused(flavor: Flavor, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        flavor.make(**wrong)


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_what_is_no_request_is_passed_on(kind: str) -> None:
    seen: list[str] = []

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    asyncio.run(asgi.FencingMiddleware(app, MemoryMarks())({"type": kind}, nothing, nothing))
    assert seen == [kind]
