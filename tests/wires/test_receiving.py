"""What a server sends comes whole and in order, however it is cut up."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from fencelock.wires.buffered_protocol import BUFFER_BYTES, Receiver
from tests.servers.tls import make_certificate

SIZES = (1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 3 * BUFFER_BYTES, 60)


class Ear(Receiver):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_what_is_sent_is_heard_once_and_stays_as_it_was(secure: bool, tmp_path: Path) -> None:
    """The room is used again: what was handed out before must not change with it."""
    serving = trusting = None
    if secure:
        certificate, key = make_certificate(tmp_path)
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(certificate, key)
        trusting = ssl.create_default_context(cafile=certificate)
    parts = [random.Random(size).randbytes(size) for size in SIZES]

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def listen() -> list[bytes]:
        server = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=serving)
        async with server:
            address = server.sockets[0].getsockname()
            _, ear = await asyncio.get_running_loop().create_connection(
                Ear, *address, ssl=trusting, server_hostname="localhost" if secure else None
            )
            await asyncio.wait_for(ear.over.wait(), 30)
            return ear.heard

    heard = asyncio.run(listen())
    assert b"".join(heard) == b"".join(parts)
    assert max(map(len, heard)) <= BUFFER_BYTES
