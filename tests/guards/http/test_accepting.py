"""A mark rises for requests that the application accepts, and for no others; in both flavors.

Else a stranger could send the highest of all fences, be answered 401, and have shut every holder
out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from fencelock import OutcomeUnknown, UsageError
from fencelock.guards.fence import FENCE_MAX
from fencelock.guards.http import MemoryMarks, asgi, wsgi
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from tests.guards.http.calls import Flavor, call, call_wsgi
from tests.servers.redis import Redis
from tests.servers.shared import shared


@pytest.fixture(params=["asgi", "wsgi"])
def flavor(request: pytest.FixtureRequest) -> Flavor:
    return Flavor(request.param)


REFUSALS = (301, 302, 303, 307, 400, 401, 403, 404, 405, 409, 413, 422, 429, 501, 503)


@pytest.mark.parametrize("status", REFUSALS)
def test_who_is_refused_by_the_application_raises_no_mark(flavor: Flavor, status: int) -> None:
    marks = MemoryMarks()
    flavor.make(marks)
    assert flavor.put(5).status == 200
    flavor.status = status
    assert flavor.put(FENCE_MAX).status == status
    assert flavor.put(FENCE_MAX, "/elsewhere").status == status
    flavor.status = 200
    assert flavor.put(5).status == 200
    assert (marks.mark("/seat"), marks.mark("/elsewhere")) == (5, 0)
    assert len(marks._marks) == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 500, 502, 504])
def test_what_may_have_been_done_raises_the_mark(flavor: Flavor, status: int) -> None:
    """After an error of the application's own nobody knows: the next one must not be older."""
    flavor.make()
    flavor.status = status
    assert flavor.put(6).status == status
    assert flavor.put(5).status == 412
    assert [fence for fence, _ in flavor.reached] == [6]


def test_an_application_that_fails_raises_the_mark() -> None:
    marks = MemoryMarks()

    async def later(*_: Any) -> None:
        raise ZeroDivisionError

    def at_once(*_: Any) -> Iterable[bytes]:
        raise ZeroDivisionError

    def in_the_body(*_: Any) -> Iterator[bytes]:
        raise ZeroDivisionError
        yield b""

    five = [("Fencing-Token", "5")]
    with pytest.raises(ZeroDivisionError):
        asyncio.run(call(asgi.FencingMiddleware(later, marks), "PUT", "/asgi", five))
    for app in (at_once, in_the_body):
        with pytest.raises(ZeroDivisionError):
            call_wsgi(wsgi.FencingMiddleware(app, marks), "PUT", f"/{app.__name__}", five)
    assert [marks.mark(path) for path in ("/asgi", "/at_once", "/in_the_body")] == [5, 5, 5]


def test_a_cancelled_handler_raises_the_mark() -> None:
    marks = MemoryMarks()

    async def work() -> None:
        inside = asyncio.Event()

        async def app(*_: Any) -> None:
            inside.set()
            await asyncio.Event().wait()

        guarded = asgi.FencingMiddleware(app, marks)
        task = asyncio.create_task(call(guarded, "PUT", "/seat", [("Fencing-Token", "5")]))
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(work())
    assert marks.mark("/seat") == 5


def test_an_application_whose_client_hangs_up_before_the_answer_raises_the_mark() -> None:
    """It may have acted before it noticed: an exception is no surer sign of that than silence."""
    marks = MemoryMarks()

    async def silent(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        assert (await receive())["type"] == "http.disconnect"

    async def hung_up() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def unread(message: asgi.Message) -> None:
        raise AssertionError(message)

    headers = [(b"fencing-token", b"5")]
    scope = {"type": "http", "method": "PUT", "path": "/seat", "headers": headers}
    asyncio.run(asgi.FencingMiddleware(silent, marks)(scope, hung_up, unread))
    assert marks.mark("/seat") == 5


def test_a_wsgi_body_that_is_closed_before_the_answer_raises_the_mark_if_it_ran() -> None:
    """A generator of which nothing was read has not begun, so it has done nothing."""
    marks = MemoryMarks()

    class Lazy:
        """A body that would respond with its first piece."""

        def __iter__(self) -> Iterator[bytes]:
            raise AssertionError("it was read")

    def acted(*_: Any) -> Iterable[bytes]:
        return Lazy()

    def never_ran(*_: Any) -> Iterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    def went_on(*_: Any) -> Iterator[bytes]:
        yield b""  # a server that is lenient waits for more

    for app, pieces in ((acted, 0), (never_ran, 0), (went_on, 1)):
        environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": f"/{app.__name__}"}
        guarded = wsgi.FencingMiddleware(app, marks)
        body: Any = guarded({**environ, "HTTP_FENCING_TOKEN": "5"}, lambda *_: None)
        reader = iter(body)
        for _ in range(pieces):
            next(reader)
        body.close()
        reply = call_wsgi(wsgi.FencingMiddleware(_ok, marks), "PUT", f"/{app.__name__}", _FOUR)
        assert reply.status == (200 if app is never_ran else 412)


_FOUR = [("Fencing-Token", "4")]


def _ok(_: Any, start_response: wsgi.Start) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"done"]


def test_the_mark_is_raised_before_the_answer_is_sent(flavor: Flavor) -> None:
    """Who has read the answer can rely on it."""
    marks = MemoryMarks()
    flavor.make(marks, reads=True)
    seen: list[int] = []

    async def asgi_send(message: asgi.Message) -> None:
        seen.append(marks.mark("/seat"))

    headers = [(b"fencing-token", b"7")]
    scope = {"type": "http", "method": "GET", "path": "/seat", "headers": headers}
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/seat", "HTTP_FENCING_TOKEN": "7"}
    if flavor.name == "asgi":
        asyncio.run(flavor.asgi(scope, lambda: asyncio.sleep(0, {}), asgi_send))
    else:
        flavor.wsgi(environ, lambda *_: seen.append(marks.mark("/seat"))).close()  # type: ignore[attr-defined]
    assert set(seen) == {7}


def test_a_wsgi_application_that_answers_late_is_judged_then() -> None:
    """A generator starts its response when the server asks for the first piece."""
    marks = MemoryMarks()

    def app(environ: dict[str, Any], start_response: wsgi.Start) -> Iterator[bytes]:
        start_response("401 No" if environ["HTTP_FENCING_TOKEN"] == "9" else "200 OK", [])
        yield b"done"

    guarded = wsgi.FencingMiddleware(app, marks)
    for fence, status in ((9, 401), (5, 200), (4, 412)):
        reply = call_wsgi(guarded, "PUT", "/seat", [("Fencing-Token", str(fence))])
        assert reply.status == status
    assert marks.mark("/seat") == 5


# When the mark cannot be raised after all


class Lost(MemoryMarks):
    """Marks whose store breaks while the application is at work."""

    def enter(self, lease: Any, *, name: str | None = None, reading: bool = False) -> None:
        raise OutcomeUnknown


class Overtaken(MemoryMarks):
    """Marks that another process raises while the application is at work."""

    def enter(self, lease: Any, *, name: str | None = None, reading: bool = False) -> None:
        super().enter(9, name=name)
        super().enter(lease, name=name)


def test_a_request_that_was_overtaken_is_told_so(flavor: Flavor) -> None:
    flavor.make(Overtaken())
    reply = flavor.put(5)
    assert reply.status == 412
    assert reply.problem["type"] == "urn:fencelock:problem:stale-fence"
    assert (reply.problem["offered"], reply.problem["highest"]) == (5, 9)
    assert "may have taken effect" in reply.problem["detail"]


def test_an_accepted_request_whose_mark_is_lost_is_told_that_it_happened(
    flavor: Flavor, caplog: pytest.LogCaptureFixture
) -> None:
    flavor.make(Lost())
    with caplog.at_level(logging.ERROR, "fencelock"):
        reply = flavor.put(5)
    assert reply.status == 500
    assert reply.problem["type"] == "urn:fencelock:problem:mark-not-raised"
    assert "has taken effect" in reply.problem["detail"]
    assert "mark is not raised" in caplog.text


# Where senders are known before


def test_with_authorize_the_mark_is_raised_first_and_strangers_reach_nothing(
    flavor: Flavor,
) -> None:
    marks = MemoryMarks()
    allowed = True
    flavor.make(marks, authorize=lambda _: allowed)
    flavor.status = 404
    assert flavor.put(5).status == 404
    assert marks.mark("/seat") == 5
    allowed = False
    reply = flavor.put(FENCE_MAX)
    assert reply.status == 403
    assert reply.problem["type"] == "urn:fencelock:problem:not-authorized"
    assert (marks.mark("/seat"), len(flavor.reached)) == (5, 1)


@pytest.mark.parametrize("answer", [None, 0, ""])
def test_only_a_yes_authorizes(flavor: Flavor, answer: Any) -> None:
    flavor.make(authorize=lambda _: answer)
    assert flavor.put(5).status == 403


def test_authorize_may_be_async_under_asyncio_only() -> None:
    async def authorize(scope: Any) -> bool:
        await asyncio.sleep(0)
        return bool(scope["path"] == "/mine")

    flavor = Flavor("asgi").make(authorize=authorize)
    assert [flavor.put(5, path).status for path in ("/mine", "/other")] == [200, 403]
    with pytest.raises(UsageError, match="WSGI cannot await"):
        Flavor("wsgi").make(authorize=authorize)


def test_an_authorize_that_fails_lets_nobody_in(flavor: Flavor) -> None:
    def authorize(_: Any) -> bool:
        raise KeyError("user")

    marks = MemoryMarks()
    flavor.make(marks, authorize=authorize)
    with pytest.raises(KeyError):
        flavor.put(5)
    assert (flavor.reached, marks.mark("/seat")) == ([], 0)


def test_a_store_that_cannot_tell_its_marks_needs_authorize(flavor: Flavor) -> None:
    class Bare:
        def enter(self, fence: int, *, name: str) -> None: ...

    with pytest.raises(UsageError, match=r"Bare has no mark\(name\).*or give authorize="):
        flavor.make(Bare())
    flavor.make(Bare(), authorize=lambda _: True)
    assert flavor.put(5).status == 200


# Stores


@pytest.mark.parametrize("epoch", [0, 3])
def test_marks_in_redis_are_raised_by_acceptance_too(flavor: Flavor, epoch: int) -> None:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        guard = RedisGuard(client, epoch=epoch)
        flavor.make(guard)
        flavor.status = 401
        assert flavor.put(FENCE_MAX).status == 401
        assert list(client.scan_iter()) == []
        flavor.status = 200
        assert [flavor.put(fence).status for fence in (5, 4, 6)] == [200, 412, 200]
        assert Flavor(flavor.name).make(RedisGuard(client, epoch=epoch + 1)).put(1).status == 200
        assert flavor.put(7).status == 412


def test_marks_of_asyncio_are_raised_by_acceptance_too() -> None:
    async def work() -> list[int]:
        async with redis.asyncio.Redis.from_url(shared(Redis).fresh_url()) as client:
            flavor = Flavor("asgi").make(AsyncRedisGuard(client))

            async def put(fence: int) -> int:
                headers = [("Fencing-Token", str(fence))]
                return (await call(flavor.asgi, "PUT", "/seat", headers)).status

            flavor.status = 401
            first = await put(FENCE_MAX)
            flavor.status = 200
            return [first, await put(6), await put(5)]

    assert asyncio.run(work()) == [401, 200, 412]


def test_marks_in_memory_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    marks = MemoryMarks(limit=3)
    with caplog.at_level(logging.WARNING, "fencelock"):
        for name in ("a", "b", "c", "a", "d", "e"):
            marks.enter(5, name=name)
    assert [marks.mark(name) for name in "abcde"] == [5, 0, 0, 5, 5]
    assert caplog.text.count("the oldest are dropped") == 1


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None])
def test_a_limit_is_a_number_of_marks(limit: Any) -> None:
    with pytest.raises(UsageError, match="limit is the number of marks"):
        MemoryMarks(limit=limit)


def test_a_stranger_does_not_disturb_a_holder_at_work() -> None:
    """The stranger waits for its turn, is refused, and the holder's next request passes."""

    async def work() -> list[int]:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
            known = scope["fencelock.fence"] == 5
            if known and not go_on.is_set():
                inside.set()
                await go_on.wait()
            status = 200 if known else 401
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guarded = asgi.FencingMiddleware(app)

        def put(fence: int) -> asyncio.Task[Any]:
            return asyncio.create_task(
                call(guarded, "PUT", "/seat", [("Fencing-Token", str(fence))])
            )

        holder = put(5)
        await inside.wait()
        stranger = put(FENCE_MAX)
        go_on.set()
        return [(await task).status for task in (holder, stranger, put(5))]

    assert asyncio.run(work()) == [200, 401, 200]
