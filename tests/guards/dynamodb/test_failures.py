"""A service that is down or loses its answers, and callers' mistakes."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencelock.errors import (
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from fencelock.guards.dynamodb import AsyncDynamoDBGuard, DynamoDBGuard
from tests.guards.contract import NAME
from tests.guards.dynamodb.desks import (
    KEY,
    TYPED_KEY,
    TableDesk,
)
from tests.servers.dynamodb import DynamoDB, aio_client, client, table
from tests.servers.proxy import Proxy
from tests.servers.server import free_port


def test_what_cannot_be_merged_is_refused(items: Any) -> None:
    from boto3.dynamodb.conditions import Attr

    with pytest.raises(UsageError, match="as text"):
        DynamoDBGuard(items).put(KEY, 5, name=NAME, ConditionExpression=Attr("left").gt(0))


def test_a_guard_is_told_its_table(server: DynamoDB) -> None:
    for wrong in (client(server.url), "table", None):
        with pytest.raises(UsageError, match="with table_name="):
            DynamoDBGuard(wrong)
    with pytest.raises(UsageError, match="a client of boto3"):
        DynamoDBGuard(None, "table")


def test_a_service_that_is_down_is_an_engine_error() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for attempts in (1, 2):
        guard = DynamoDBGuard(table(url, "any", attempts=attempts))
        for call in (
            partial(guard.enter, KEY, 1, name=NAME),
            partial(guard.put, KEY, 1, name=NAME),
            partial(guard.mark, KEY),
            partial(guard.reset, KEY),
        ):
            with pytest.raises(Unavailable) as caught:
                call()
            assert not caught.value.may_have_happened

    async def enter() -> None:
        async with aio_client(url) as aio:
            await AsyncDynamoDBGuard(aio, "any").enter(TYPED_KEY, 1, name=NAME)

    with pytest.raises(Unavailable):
        asyncio.run(enter())


def test_a_lost_answer_leaves_the_outcome_unknown(server: DynamoDB) -> None:
    name = server.fresh_table()
    with Proxy(server.port) as proxy:
        desk = TableDesk(f"http://{proxy.address}", name)
        proxy.lose_next_reply()
        with pytest.raises(OutcomeUnknown):
            desk.write("a", 5, NAME)
        direct = TableDesk(server.url, name)
        assert (direct.read(), direct.mark()) == ("a", 5)
        proxy.lose_next_reply()
        with pytest.raises(Unavailable):  # a read changes nothing in any case
            desk.mark()


@contextmanager
def resetting(port: int) -> Generator[str]:
    """A way to a server that hands one request on, and then resets the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        here, _ = listener.accept()
        request = b""
        while not _is_whole(request):
            request += here.recv(65536)
        with socket.create_connection(("127.0.0.1", port)) as there:
            there.sendall(request)
            there.recv(65536)  # it was carried out
        here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        here.close()

    thread = Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread.join()
    listener.close()


def _is_whole(request: bytes) -> bool:
    head, separator, body = request.partition(b"\r\n\r\n")
    size = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(separator) and size is not None and len(body) >= int(size[1])


@pytest.mark.parametrize("flavor", ["boto3", "aiobotocore"])
def test_a_connection_reset_after_the_request_leaves_the_outcome_unknown(
    server: DynamoDB, flavor: str
) -> None:
    name = server.fresh_table()

    async def put(url: str) -> None:
        async with aio_client(url) as aio:
            item = {**TYPED_KEY, "value": {"S": "a"}}
            await AsyncDynamoDBGuard(aio, name).put(item, 5, name=NAME)

    with resetting(server.port) as url, pytest.raises(OutcomeUnknown):
        if flavor == "boto3":
            DynamoDBGuard(table(url, name, attempts=1)).put({**KEY, "value": "a"}, 5, name=NAME)
        else:
            asyncio.run(put(url))
    assert DynamoDBGuard(table(server.url, name)).mark(KEY) == 5


def test_an_earlier_attempt_is_not_forgotten(server: DynamoDB) -> None:
    """The first attempt's answer is lost, the second is refused a connection: who knows?"""
    name = server.fresh_table()
    with Proxy(server.port) as proxy:
        items = table(f"http://{proxy.address}", name, attempts=2)

        def cut_before_the_second(attempts: int, **_: Any) -> None:
            if attempts == 1:
                proxy.cut()

        items.meta.client.meta.events.register("needs-retry", cut_before_the_second)
        proxy.lose_next_reply()
        with pytest.raises(OutcomeUnknown):
            DynamoDBGuard(items).put({**KEY, "value": "a"}, 5, name=NAME)
    assert DynamoDBGuard(table(server.url, name)).mark(KEY) == 5


def test_a_repeated_attempt_does_it_once_more_and_is_accepted(server: DynamoDB) -> None:
    name = server.fresh_table()
    with Proxy(server.port) as proxy:
        guard = DynamoDBGuard(table(f"http://{proxy.address}", name, attempts=3))
        proxy.lose_next_reply()
        guard.put({**KEY, "value": "a"}, 5, name=NAME)
        assert guard.mark(KEY) == 5


def test_a_table_that_is_not_there_is_told(server: DynamoDB) -> None:
    with pytest.raises(Misconfigured, match="is not there"):
        DynamoDBGuard(table(server.url, "missing")).put(KEY, 5, name=NAME)


def test_an_error_of_the_callers_own_request_passes_as_it_is(items: Any) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        DynamoDBGuard(items).put({"no": "key"}, 5, name=NAME)
