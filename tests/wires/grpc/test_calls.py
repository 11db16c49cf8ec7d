"""Calls to a real server, in both flavors."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fencelock.wires.grpc import client_aio
from fencelock.wires.grpc.status import CODES, RpcError
from tests.faults.flavors import SOON, Lab, run
from tests.wires.grpc.connections import AioConnection, Connection, connection_to, refusal
from tests.wires.grpc.server import GrpcServer


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 100_000, 5_000_000])
def test_a_message_of_any_size_comes_back(
    flavor: str, size: int, shared_server: GrpcServer
) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            message = bytes(range(256)) * (size // 256) + bytes(size % 256)
            for _ in range(2):
                assert await connection.call("echo", message) == message

    run(flavor, scenario)


def test_many_calls_are_under_way_at_once(flavor: str) -> None:
    """None of them is answered before the last has reached the server."""

    async def scenario(lab: Lab) -> None:
        server.meeting = threading.Barrier(64)
        async with connection_to(lab, server.address) as connection:
            names = [b"call %d" % number for number in range(64)]
            jobs = [lab.start(connection.call("meet", name)) for name in names]
            assert [await job.result() for job in jobs] == names

    with GrpcServer() as server:
        run(flavor, scenario)


def test_calls_wait_where_the_server_takes_two_at_once(flavor: str) -> None:
    """This server counts a call for a moment longer than we do, and then refuses another."""

    async def insist(connection: Connection, name: bytes) -> bytes:
        for _ in range(1000):
            try:
                return await connection.call("linger", name)
            except RpcError as error:
                if not error.unsent:
                    raise
        raise AssertionError(f"{name!r} was refused again and again")

    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            await connection.call("echo")  # the limit is known from here on
            names = [b"call %d" % number for number in range(20)]
            jobs = [lab.start(insist(connection, name)) for name in names]
            assert [await job.result() for job in jobs] == names
        assert server.acted == dict.fromkeys([b"", *names], 1)

    with GrpcServer({"grpc.max_concurrent_streams": 2}) as server:
        run(flavor, scenario)


@pytest.mark.parametrize("number", range(1, 17))
def test_every_status_comes_with_its_details(
    flavor: str, number: int, shared_server: GrpcServer
) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            details = 'naïve 100% "日本" \U0001f512'
            error = await refusal(connection.call("status", f"{number}:{details}".encode()))
            assert (error.code, error.details, error.unsent) == (CODES[number], details, False)
            assert await connection.call("echo", b"on it goes") == b"on it goes"

    run(flavor, scenario)


def test_a_method_that_does_not_exist_is_refused(flavor: str, shared_server: GrpcServer) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            assert (await refusal(connection.call("nothing"))).code == "UNIMPLEMENTED"

    run(flavor, scenario)


def test_what_is_said_about_a_call_reaches_the_server(
    flavor: str, shared_server: GrpcServer
) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, shared_server.address) as connection:
            about = (("token", "a" * 2000), ("other", "b"))
            assert await connection.call("about", b"token", about=about) == b"a" * 2000
            assert await connection.call("about", b"other", about=about) == b"b"
            assert await connection.call("about", b"token") == b"none"
            assert await connection.call("about", b"user-agent") == b"fencelock"

    run(flavor, scenario)


def test_a_call_ends_at_its_deadline_and_others_go_on(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            await connection.call("echo")
            late = lab.start(refusal(connection.call("hang", b"late", within=1.5)))
            longer = lab.start(connection.call("hang", b"longer"))
            await lab.until(lambda: server.acted.total() == 3)
            count = 0
            while not late.done():
                count += 1
                assert await connection.call("echo", b"%d" % count) == b"%d" % count
            error = await late.result()
            assert (error.code, error.unsent) == ("DEADLINE_EXCEEDED", False)
            server.released.set()
            assert await longer.result() == b"longer"
            assert connection.usable()

    with GrpcServer() as server:
        run(flavor, scenario)


def test_the_server_learns_of_the_deadline(flavor: str) -> None:
    """It ends the call by itself, long before we would."""

    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            error = await refusal(connection.call("hang", b"late", told=0.05))
            assert error.code in ("DEADLINE_EXCEEDED", "CANCELLED")  # by trailers or by a reset
            assert not error.unsent
            assert await connection.call("echo", b"on it goes") == b"on it goes"

    with GrpcServer() as server:
        run(flavor, scenario)


def test_a_cancelled_task_waits_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request may be served after what undoes it, if it does not."""
    monkeypatch.setattr(client_aio, "LINGER_S", SOON)

    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            task = asyncio.create_task(connection.call("hang", b"cancelled"))
            await lab.until(lambda: server.acted.total() == 1)
            for _ in range(3):
                task.cancel()
                assert await connection.call("echo") == b""  # many turns of the loop
                assert not task.done()
            server.released.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert isinstance(connection, AioConnection)
            assert connection.client._frames.idle

    with GrpcServer() as server:
        run("asyncio", scenario)


def test_a_cancelled_task_does_not_wait_for_a_silent_server() -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            task = asyncio.create_task(connection.call("hang", within=10 * SOON))
            await lab.until(lambda: server.acted.total() == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, SOON)
            assert not server.released.is_set()
            assert isinstance(connection, AioConnection)
            assert connection.client._frames.idle

    with GrpcServer() as server:
        run("asyncio", scenario)


def test_a_cancelled_task_does_not_outlive_its_deadline() -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            task = asyncio.create_task(connection.call("hang", within=1.5))
            await lab.until(lambda: server.acted.total() == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not server.released.is_set()

    with GrpcServer() as server:
        run("asyncio", scenario)
