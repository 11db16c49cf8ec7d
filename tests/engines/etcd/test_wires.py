"""Members that take connections and say nothing, and what is left of a connection then."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from fencelock import Unavailable
from fencelock.engines.etcd.messages.requests import RANGE
from fencelock.engines.etcd.wire import WORK
from fencelock.engines.etcd.wire.aio import AioWire
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON, Lab, run
from tests.servers.server import until


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
            with pytest.raises(RpcError) as told:
                await wire.call(0, WORK, RANGE, b"", 0.05, ())
            assert told.value.code == "DEADLINE_EXCEEDED"
            wire.leave(0, WORK)
            assert not waiting.done()
            await wire.close()
            await asyncio.sleep(0)  # its task hears of it
            assert waiting.done()
            with pytest.raises(RpcError) as told:
                await waiting
            assert not told.value.unsent
            await asyncio.wait_for(ended.wait(), SOON)

    asyncio.run(main())


@pytest.mark.parametrize("tls", ["yes", "no"])
def test_who_is_silent_is_given_its_time_once(flavor: str, tls: str) -> None:
    """It was asked twice where it was TLS that it did not answer: that took twice as long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        taken: list[socket.socket] = []
        threading.Thread(target=_take_all, args=(silent, taken), daemon=True).start()
        host, port = silent.getsockname()

        async def scenario(lab: Lab) -> None:
            with pytest.raises(Unavailable, match=r"no answer .*nothing happened"):
                _ = await lab.connect(f"etcd://{host}:{port}", request_timeout=0.5, tls=tls)

        run(flavor, scenario)
        until(lambda: taken, "the one connection to be taken")
        silent.shutdown(socket.SHUT_RDWR)  # ends the thread
    assert len(taken) == 1
    for line in taken:
        line.close()


def _take_all(silent: socket.socket, taken: list[socket.socket]) -> None:
    try:
        while True:
            taken.append(silent.accept()[0])
    except OSError:
        pass  # it is over
