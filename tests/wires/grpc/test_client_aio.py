"""What a connection of asyncio does by itself: it closes, gives up, and begins no dead stream."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fencelock.wires.grpc.client_aio import AioClient, AioStream
from fencelock.wires.grpc.connection import CANCEL, GOAWAY, RST_STREAM, frame
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON


class Pipe(asyncio.Transport):
    """Keeps what is written. It is as strict as those of uvloop about what comes too late."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.aborted:
            raise RuntimeError("the handler is closed")
        self.said += bytes(data)

    def abort(self) -> None:
        self.aborted = True


def with_line(work: Any) -> None:
    async def main() -> None:
        line, pipe = AioClient(), Pipe()
        line.connection_made(pipe)
        await work(line, pipe)
        line.close()

    asyncio.run(main())


async def refusal(call: Coroutine[Any, Any, bytes]) -> str:
    try:
        await call
    except RpcError as error:
        return error.code
    return "none"


def test_a_line_that_the_server_leaves_closes_when_nothing_is_under_way() -> None:
    async def work(line: AioClient, pipe: Pipe) -> None:
        line.data_received(frame(GOAWAY, 0, 0, bytes(8)))
        assert line.closed
        assert pipe.aborted

    with_line(work)


def test_nothing_is_written_to_a_line_that_has_closed() -> None:
    async def work(line: AioClient, pipe: Pipe) -> None:
        line.retire()
        assert pipe.aborted
        assert await refusal(line.call(b"head", b"", SOON)) == "UNAVAILABLE"

    with_line(work)


def test_each_call_ends_at_its_own_deadline_and_the_server_is_told() -> None:
    async def work(line: AioClient, pipe: Pipe) -> None:
        calls = [refusal(line.call(b"head", b"", within)) for within in (0.02, 0.06)]
        async with asyncio.timeout(SOON):
            assert await asyncio.gather(*calls) == ["DEADLINE_EXCEEDED"] * 2
        for number in (1, 3):
            assert frame(RST_STREAM, 0, number, CANCEL.to_bytes(4, "big")) in pipe.said

    with_line(work)


def test_a_stream_that_was_closed_before_there_was_a_line_never_begins() -> None:
    async def work(line: AioClient, pipe: Pipe) -> None:
        ready: asyncio.Future[AioClient] = asyncio.get_running_loop().create_future()
        ends: list[None] = []
        stream = AioStream(ready, b"the head", lambda message: None, lambda: ends.append(None))
        stream.close()
        ready.set_result(line)
        for _ in range(3):
            await asyncio.sleep(0)
        assert b"the head" not in pipe.said
        assert len(ends) == 1

    with_line(work)
