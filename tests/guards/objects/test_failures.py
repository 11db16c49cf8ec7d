"""A store that is down, loses its answers or ignores its conditions, and callers' mistakes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencelock.errors import (
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from fencelock.guards.s3 import AsyncS3Guard, S3Guard, unwrap
from tests.guards.contract import NAME
from tests.guards.objects.desks import S3Desk
from tests.servers.proxy import Proxy
from tests.servers.seaweed import BUCKET, Seaweed, aio_client, client
from tests.servers.server import free_port

KEY = "value"


def test_probing_a_store_that_keeps_its_conditions(desk: S3Desk) -> None:
    desk.guard.probe(desk.key)
    assert "Contents" not in desk.client.list_objects_v2(Bucket=BUCKET, Prefix=desk.key)


@pytest.mark.parametrize("ignored", ["IfMatch", "IfNoneMatch"])
def test_probing_a_store_that_ignores_them(
    desk: S3Desk, ignored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = desk.guard._send

    def ignore(step: Any) -> Any:
        request = {name: value for name, value in step.request.items() if name != ignored}
        return send(step._replace(request=request))

    monkeypatch.setattr(desk.guard, "_send", ignore)
    with pytest.raises(Misconfigured, match=f"If-{ignored[2:].replace('NoneM', 'None-M')}"):
        desk.guard.probe(desk.key)


def test_a_store_that_is_down_is_an_engine_error() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    guard = S3Guard(client(url), "any-bucket")
    for call in (
        lambda: guard.enter(KEY, 1, name=NAME),
        lambda: guard.put(KEY, b"", 1, name=NAME),
        lambda: guard.mark(KEY),
        lambda: guard.reset(KEY),
        lambda: guard.forget(1),
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert not caught.value.may_have_happened

    async def enter() -> None:
        async with aio_client(url) as aio:
            await AsyncS3Guard(aio, "any-bucket").enter(KEY, 1, name=NAME)

    with pytest.raises(Unavailable):
        asyncio.run(enter())


def test_a_lost_answer_leaves_the_outcome_unknown(server: Seaweed) -> None:
    key = server.fresh_prefix() + "value"
    with Proxy(server.port) as proxy:
        guard = S3Guard(client(f"http://{proxy.address}"), BUCKET)
        send = guard._send

        def lose_the_answer(step: Any) -> Any:
            if step.method == "put_object":
                proxy.lose_next_reply(b"fencelock-mark:")  # not that to its headers
            return send(step)

        guard._send = lose_the_answer  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown):
            guard.put(key, b"a", 5, name=NAME)
        direct = S3Guard(client(server.url), BUCKET)
        assert (direct.read(key), direct.mark(key)) == (b"a", 5)
        proxy.lose_next_reply()
        with pytest.raises(Unavailable):  # a read changes nothing in any case
            guard.mark(key)


def test_the_repeated_request_after_a_lost_answer_finds_its_own_work(server: Seaweed) -> None:
    """botocore repeats; the object has another tag by then, which is our own."""
    key = server.fresh_prefix() + "value"
    with Proxy(server.port) as proxy:
        guard = S3Guard(client(f"http://{proxy.address}", attempts=3), BUCKET)
        guard.put(key, b"a", 5, name=NAME)
        send, came = guard._send, list[str]()

        def lose_the_answer(step: Any) -> Any:
            if getattr(step, "method", "") == "put_object" and not came:
                came.append("once")
                proxy.lose_next_reply(b"fencelock-mark:")  # not that to its headers
            return send(step)

        guard._send = lose_the_answer  # type: ignore[method-assign]
        guard.put(key, b"b", 6, name=NAME)
        assert (guard.read(key), guard.mark(key)) == (b"b", 6)


def test_a_bucket_that_is_not_there_is_told(server: Seaweed) -> None:
    with pytest.raises(Misconfigured, match="is not there"):
        S3Guard(client(server.url), "missing-bucket").enter(KEY, 5, name=NAME)


def test_mistakes_are_told(desk: S3Desk) -> None:
    with pytest.raises(UsageError, match="bytes"):
        desk.guard.put(desk.key, "text", 5, name=NAME)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="seconds"):
        desk.guard.forget(0)
    with pytest.raises(UsageError):
        desk.guard.reset(desk.key, -1)
    with pytest.raises(UsageError, match="a client of boto3"):
        S3Guard("http://localhost:9000", "bucket")


@pytest.mark.parametrize(
    "body", [b"", b"plain", b"fencelock-mark:12\n", b"fencelock-mark:" + b"x" * 19 + b"\n"]
)
def test_what_no_guard_wrote_is_data(body: bytes) -> None:
    assert unwrap(body) == (0, body)
