"""A slow handler is not overtaken: fence 5 at work, fence 6 comes, and who writes last.

Within one process the middleware sees to it. Between processes it cannot, which is shown here too,
with what helps: the fence in the write itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest
import redis

from fencelock import StaleFence
from fencelock.guards.http import asgi, wsgi
from fencelock.guards.http.holds import TaskHolds
from fencelock.guards.redis import RedisGuard
from tests.guards.http.calls import Reply, call, call_wsgi
from tests.servers.redis import Redis
from tests.servers.shared import shared

TIMEOUT_S = 30.0


class Slow:
    """An application whose handler for fence 5 waits until it is told to write."""

    def __init__(self, write: Callable[[int], None] | None = None) -> None:
        self.written: list[int] = []
        self.write = write or self.written.append
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        fence = scope["fencelock.fence"]
        if fence == 5:
            self.inside.set()
            await self.go_on.wait()
        try:
            self.write(fence)
            status = 200
        except StaleFence:
            status = 412
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def put(app: asgi.App, fence: int, path: str = "/seat") -> asyncio.Task[Reply]:
    return asyncio.create_task(call(app, "PUT", path, [("Fencing-Token", str(fence))]))


def scenario(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await work()

    asyncio.run(limited())


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_next_fence_waits_for_a_slow_handler() -> None:
    async def work() -> None:
        app = Slow()
        guarded = asgi.FencingMiddleware(app)
        five = put(guarded, 5)
        await app.inside.wait()
        six, elsewhere = put(guarded, 6), put(guarded, 6, "/other")
        assert (await elsewhere).status == 200  # only the same resource waits
        late = put(guarded, 4)
        await settle()
        assert app.written == [6]
        app.go_on.set()
        assert [(await task).status for task in (five, six, late)] == [200, 200, 412]
        assert app.written == [6, 5, 6]
        assert guarded._holds._holds == {}

    scenario(work)


def test_without_the_hold_a_slow_handler_is_overtaken() -> None:
    """What ``hold=False`` gives up."""

    async def work() -> None:
        app = Slow()
        guarded = asgi.FencingMiddleware(app, hold=False)
        five = put(guarded, 5)
        await app.inside.wait()
        assert (await put(guarded, 6)).status == 200
        app.go_on.set()
        await five
        assert app.written == [6, 5]

    scenario(work)


@pytest.fixture
def client() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        yield client


@pytest.mark.parametrize("carried", [False, True], ids=["bare write", "fence in the write"])
def test_between_processes_the_write_itself_must_carry_the_fence(
    client: redis.Redis, carried: bool
) -> None:
    """Two middlewares that share marks and nothing else, as two processes of a server do."""
    data = RedisGuard(client, prefix="data:")

    def write(fence: int) -> None:
        if carried:
            data.set("seat", fence, fence, name="/seat")
        else:
            client.set("seat", fence)

    async def work() -> None:
        app = Slow(write)
        one, two = (asgi.FencingMiddleware(app, RedisGuard(client)) for _ in range(2))
        five = put(one, 5)
        await app.inside.wait()
        assert (await put(two, 6)).status == 200
        app.go_on.set()
        assert (await five).status == 412  # it is told, in either case

    scenario(work)
    assert client.get("seat") == (b"6" if carried else b"5")


def test_waiting_for_a_slow_handler_has_an_end() -> None:
    async def work() -> None:
        app = Slow()
        guarded = asgi.FencingMiddleware(app, hold_timeout=0.01)
        five = put(guarded, 5)
        await app.inside.wait()
        reply = await put(guarded, 6)
        assert reply.status == 503
        assert reply.problem["type"] == "urn:fencelock:problem:resource-busy"
        app.go_on.set()
        assert (await five).status == 200
        assert (await put(guarded, 6)).status == 200
        assert app.written == [5, 6]
        assert guarded._holds._holds == {}

    scenario(work)


def test_requests_that_are_cancelled_while_they_wait_stop_nobody() -> None:
    async def work() -> None:
        app = Slow()
        guarded = asgi.FencingMiddleware(app)
        five = put(guarded, 5)
        await app.inside.wait()
        waiting = [put(guarded, fence) for fence in (6, 7, 8)]
        await settle()
        waiting[0].cancel()
        app.go_on.set()
        await five
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting[2].result().status == 200
        assert guarded._holds._holds == {}

    scenario(work)


def test_who_is_cancelled_when_its_turn_has_just_come_passes_it_on() -> None:
    async def work() -> None:
        holds = TaskHolds()
        await holds.enter("seat", TIMEOUT_S)
        first, second = (asyncio.create_task(holds.enter("seat", TIMEOUT_S)) for _ in range(2))
        await settle()
        holds.leave("seat")
        first.cancel()  # before it could learn that it is its turn
        await second
        assert first.cancelled()
        holds.leave("seat")
        assert holds._holds == {}

    scenario(work)


def test_an_application_that_fails_does_not_shut_the_resource() -> None:
    async def work() -> None:
        async def app(*_: Any) -> None:
            raise ZeroDivisionError

        guarded = asgi.FencingMiddleware(app)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await put(guarded, 5)
        assert guarded._holds._holds == {}

    scenario(work)


# WSGI: a request is done when its response is closed


class Streaming:
    """An application that sends its response piece by piece."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.go_on = threading.Event()
        self.inside = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: wsgi.Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        return self.pieces(environ["fencelock.fence"])

    def pieces(self, fence: int) -> Iterator[bytes]:
        yield b"first"
        if fence == 5:
            self.inside.set()
            assert self.go_on.wait(TIMEOUT_S)
        self.written.append(fence)
        yield b"last"


def test_a_response_under_way_holds_the_next_request_up() -> None:
    app = Streaming()
    guarded = wsgi.FencingMiddleware(app)
    done: list[Reply] = []

    def send(fence: int) -> None:
        done.append(call_wsgi(guarded, "PUT", "/seat", [("Fencing-Token", str(fence))]))

    five = threading.Thread(target=send, args=(5,))
    five.start()
    assert app.inside.wait(TIMEOUT_S)
    six = threading.Thread(target=send, args=(6,))
    six.start()
    while len(guarded._holds._holds["/seat"][1]) < 2:
        assert six.is_alive()
    assert app.written == []
    app.go_on.set()
    for thread in (five, six):
        thread.join(TIMEOUT_S)
    assert app.written == [5, 6]
    assert [reply.status for reply in done] == [200, 200]
    assert guarded._holds._holds == {}


def test_waiting_for_a_response_under_way_has_an_end() -> None:
    guarded = wsgi.FencingMiddleware(Streaming(), hold_timeout=0.01)
    environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/seat", "HTTP_FENCING_TOKEN": "6"}
    under_way = guarded(environ, lambda *_: None)
    assert call_wsgi(guarded, "PUT", "/seat", [("Fencing-Token", "7")]).status == 503
    under_way.close()  # type: ignore[attr-defined]
    under_way.close()  # type: ignore[attr-defined]  # twice does no harm
    assert call_wsgi(guarded, "PUT", "/seat", [("Fencing-Token", "7")]).status == 200
    assert guarded._holds._holds == {}


def test_a_wsgi_application_that_fails_does_not_shut_the_resource() -> None:
    def app(*_: Any) -> Iterable[bytes]:
        raise ZeroDivisionError

    guarded = wsgi.FencingMiddleware(app)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            call_wsgi(guarded, "PUT", "/seat", [("Fencing-Token", "5")])
    assert guarded._holds._holds == {}
