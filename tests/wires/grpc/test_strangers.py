"""Servers that say nothing, or something else, or are not there."""

from __future__ import annotations

import pytest

from fencelock.wires.grpc import client_aio, stream_threads
from tests.faults.flavors import SOON, Lab, run
from tests.servers.server import free_port
from tests.wires.grpc.connections import beside, connect, connection_to, refusal, wire_to
from tests.wires.grpc.peer import ACK, DATA, PING, answer, frame
from tests.wires.grpc.script import Script


def test_where_nobody_listens_nothing_was_sent(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        address = f"127.0.0.1:{free_port()}"
        for work in (connect(lab, address), _once(lab, address)):
            error = await refusal(work)
            assert (error.code, error.unsent) == ("UNAVAILABLE", True)
            assert "cannot connect" in error.details

    run(flavor, scenario)


async def _once(lab: Lab, address: str) -> bytes:
    async with wire_to(lab, address) as wire:
        return await wire.call(0, 0, "/test/any", b"", SOON, ())


def test_a_server_that_never_says_anything_is_given_up(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            for _ in range(2):  # the line is as good as before: it may only be slow
                error = await refusal(connection.call("any", within=0.1))
                assert (error.code, error.unsent) == ("DEADLINE_EXCEEDED", False)
                assert connection.usable()
            jobs = [lab.start(refusal(connection.call("any", within=0.2))) for _ in range(5)]
            for job in jobs:
                assert (await job.result()).code == "DEADLINE_EXCEEDED"

    with Script() as script:
        run(flavor, scenario)


def test_a_request_that_is_too_large_for_a_silent_server_is_given_up(flavor: str) -> None:
    """It waits for room, and not in the socket."""

    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            side = await beside(lab, script.accept)
            error = await refusal(connection.call("any", b"x" * 1_000_000, within=0.2))
            assert error.code == "DEADLINE_EXCEEDED"
            job = lab.start(connection.call("any"))
            side.says(frame(8, 0, 0, (1000).to_bytes(4, "big")))
            while (heard := await beside(lab, side.next, DATA)).number != 3:
                pass
            side.says(answer(heard.number, b"small"))
            assert await job.result() == b"small"

    with Script() as script:
        run(flavor, scenario)


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"220 mail ESMTP ready\r\n"],
    ids=["HTTP/1.1", "mail"],
)
@pytest.mark.parametrize("when", ["at once", "after the request"])
def test_another_protocol_is_named(flavor: str, said: bytes, when: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            side = await beside(lab, script.accept)
            job = lab.start(refusal(connection.call("any")))
            if when == "after the request":
                await beside(lab, side.next, DATA)
            side.says(said)
            error = await job.result()
            assert (error.code, error.unsent) == ("UNAVAILABLE", False)
            assert "no HTTP/2 server" in error.details
            assert not connection.usable()
            await beside(lab, side.until_closed)

    with Script() as script:
        run(flavor, scenario)


def test_a_silent_server_is_asked_for_a_sign_of_life(
    flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on while there is one, and ends when there is none."""
    for module in (client_aio, stream_threads):
        monkeypatch.setattr(module, "SILENCE_S", 0.05)
        monkeypatch.setattr(module, "DEATH_S", 1.0)

    async def scenario(lab: Lab) -> None:
        ends: list[int] = []
        async with connection_to(lab, script.address) as connection:
            side = await beside(lab, script.accept)
            side.greet()
            stream = connection.stream("any", lambda _: None, lambda: ends.append(1))
            if lab.flavor == "sync":  # it has a connection of its own
                side = await beside(lab, script.accept)
            for _ in range(2):
                ping = await beside(lab, side.next, PING)
                side.says(frame(PING, ACK, 0, ping.payload))
                assert not ends
            await beside(lab, side.next, PING)
            await lab.until(lambda: ends)
            await beside(lab, side.until_closed)
            stream.close()
            assert ends == [1]

    with Script() as script:
        run(flavor, scenario)
