"""Streams: messages both ways, and one end, however it comes."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from fencelock.engines.etcd.cluster import Stream
from fencelock.wires.grpc import client_aio, stream_threads
from fencelock.wires.grpc.client_threads import FrameSocket
from fencelock.wires.grpc.server import Server
from tests.faults.flavors import SOON, Lab, run
from tests.servers.server import free_port
from tests.wires.grpc.connections import Connection, beside, connection_to
from tests.wires.grpc.peer import DATA, HEADERS, RESET, answer, begun, ended, refused
from tests.wires.grpc.script import Script
from tests.wires.grpc.server import GrpcServer


class Listener:
    """What a stream tells."""

    def __init__(self) -> None:
        self.news: list[bytes] = []
        self.ends = 0

    def end(self) -> None:
        self.ends += 1

    def listen(self, connection: Connection) -> Stream:
        return connection.stream("flow", self.news.append, self.end)

    def open(self, lab: Lab, address: str) -> Stream:
        """A stream to a server that has not been connected to."""
        server = Server.at(address, None)
        head = server.headers["/test/flow", None, ()]
        if lab.flavor == "sync":
            return stream_threads.ThreadsStream(server, head, self.news.append, self.end)
        line = client_aio.connect(server, SOON)
        return client_aio.AioStream(_closing(line), head, self.news.append, self.end)


async def _closing(line: Coroutine[Any, Any, client_aio.AioClient]) -> client_aio.AioClient:
    found = await line
    _opened.append(found)
    return found


_opened: list[client_aio.AioClient] = []


async def _close_lines(lab: Lab) -> None:
    while _opened:
        _opened.pop().close()
    await lab.let_pass(0)


def test_messages_go_both_ways_in_order(flavor: str, shared_server: GrpcServer) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            listener = Listener()
            stream = listener.listen(connection)
            said = [b"a%d" % number for number in range(200)] + [b"", b"x" * 300_000]
            for message in said:
                stream.send(message)
            await lab.until(lambda: len(listener.news) == 2 * len(said))
            assert listener.news == [form for one in said for form in (one, one.upper())]
            assert await connection.call("echo", b"beside it") == b"beside it"
            assert listener.ends == 0
            stream.close()
            await lab.until(lambda: listener.ends)
        assert listener.ends == 1

    run(flavor, scenario)


@pytest.mark.parametrize("word", [b"end", b"fail"])
def test_the_server_may_end_it(flavor: str, word: bytes, shared_server: GrpcServer) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            listener = Listener()
            stream = listener.listen(connection)
            stream.send(b"one")
            stream.send(word)
            await lab.until(lambda: listener.ends)
            assert listener.news == [b"one", b"ONE"]
            stream.send(b"too late")
            stream.close()
            stream.close()
            assert await connection.call("echo", b"on it goes") == b"on it goes"
        assert (listener.ends, len(listener.news)) == (1, 2)

    run(flavor, scenario)


def test_nothing_is_heard_after_we_ended_it(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            listener = Listener()
            if lab.flavor == "sync":
                (await beside(lab, script.accept)).greet()  # the connection of the calls
            stream = listener.listen(connection)
            side = await beside(lab, script.accept)
            side.greet()
            await beside(lab, side.next, HEADERS)
            stream.close()
            await lab.until(lambda: listener.ends)
            if lab.flavor == "sync":
                await beside(lab, side.until_closed)
            else:
                assert (await beside(lab, side.next, RESET)).number == 1
                side.says(answer(1, b"too late"))
                job = lab.start(connection.call("any"))
                await beside(lab, side.next, DATA)
                side.says(answer(3, b"then"))
                assert await job.result() == b"then"
        assert (listener.ends, listener.news) == (1, [])

    with Script() as script:
        run(flavor, scenario)


def test_what_is_said_before_there_is_a_connection_is_sent(
    flavor: str, shared_server: GrpcServer
) -> None:
    async def scenario(lab: Lab) -> None:
        listener = Listener()
        stream = listener.open(lab, shared_server.address)
        for word in (b"a", b"b", b"c"):
            stream.send(word)
        await lab.until(lambda: len(listener.news) == 6)
        assert listener.news == [b"a", b"A", b"b", b"B", b"c", b"C"]
        stream.close()
        await lab.until(lambda: listener.ends)
        await _close_lines(lab)
        assert listener.ends == 1

    run(flavor, scenario)


def test_it_may_be_closed_before_there_is_a_connection(
    flavor: str, shared_server: GrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        connecting, listener = threading.Event(), Listener()

        class Late(FrameSocket):
            def __init__(self, server: Server, within: float) -> None:
                assert connecting.wait(SOON)
                super().__init__(server, within)

        monkeypatch.setattr(stream_threads, "FrameSocket", Late)
        stream = listener.open(lab, shared_server.address)
        stream.send(b"never heard")
        stream.close()
        stream.close()
        connecting.set()
        await lab.until(lambda: listener.ends)
        if lab.flavor == "asyncio":
            await lab.until(lambda: _opened)
        await _close_lines(lab)
        assert (listener.ends, listener.news) == (1, [])
        assert b"never heard" not in shared_server.acted

    run(flavor, scenario)


def test_it_ends_where_nobody_listens(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        listener = Listener()
        stream = listener.open(lab, f"127.0.0.1:{free_port()}")
        stream.send(b"hello?")
        await lab.until(lambda: listener.ends)
        stream.close()
        assert (listener.ends, listener.news) == (1, [])

    run(flavor, scenario)


def test_it_ends_with_its_server(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with GrpcServer() as server:
            async with connection_to(lab, server.address) as connection:
                listener = Listener()
                stream = listener.listen(connection)
                stream.send(b"one")
                await lab.until(lambda: len(listener.news) == 2)
                await beside(lab, server.stop)
                await lab.until(lambda: listener.ends)
                stream.send(b"too late")
                stream.close()
        assert listener.ends == 1

    run(flavor, scenario)


@pytest.mark.parametrize(
    "last",
    [
        begun(1) + b"\0\0\x05\0\0\0\0\0\x01\x01\0\0\0\0",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        refused(1, 12),
        begun(1) + ended(1),
        b"",
    ],
    ids=["compressed", "another protocol", "refused", "ended", "cut"],
)
def test_it_ends_once_whatever_the_server_says_last(flavor: str, last: bytes) -> None:
    async def scenario(lab: Lab) -> None:
        listener = Listener()
        stream = listener.open(lab, script.address)
        side = await beside(lab, script.accept)
        await beside(lab, side.next, HEADERS)
        side.says(last)
        if not last:
            side.close(abruptly=True)
        await lab.until(lambda: listener.ends)
        stream.close()
        await _close_lines(lab)
        assert (listener.ends, listener.news) == (1, [])

    with Script() as script:
        run(flavor, scenario)
