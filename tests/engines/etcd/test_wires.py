"""What is left of a member's connection once nobody wants it any more."""

from __future__ import annotations

import asyncio

import pytest

from fencelock.engines.etcd.link import RANGE, WORK
from fencelock.engines.etcd.wire_aio import AioWire
from fencelock.wires.grpc.call import Refused
from tests.faults.flavors import SOON


def test_a_connection_that_was_left_ends_with_its_client() -> None:
    """A call on it may still be under way: its member hangs, and is called no more."""
    ended = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()
        ended.set()

    async def main() -> None:
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            wire = AioWire([f"{host}:{port}"], None)
            waiting = asyncio.create_task(wire.call(0, WORK, RANGE, b"", SOON, ()))
            with pytest.raises(Refused) as told:
                await wire.call(0, WORK, RANGE, b"", 0.05, ())
            assert told.value.code == "DEADLINE_EXCEEDED"
            wire.leave(0, WORK)
            assert not waiting.done()
            await wire.close()
            await asyncio.sleep(0)  # its task hears of it
            assert waiting.done()
            with pytest.raises(Refused) as told:
                await waiting
            assert not told.value.unsent
            await asyncio.wait_for(ended.wait(), SOON)

    asyncio.run(main())
