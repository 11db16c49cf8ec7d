"""Servers that stop, and connections that are left: no call is lost or taken for unsent."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON, Lab, run
from tests.wires.grpc.connections import beside, connection_to, refusal, wire_to
from tests.wires.grpc.peer import DATA, HEADERS, answer, begun, farewell
from tests.wires.grpc.script import Script
from tests.wires.grpc.server import GrpcServer


def test_an_idle_line_sees_that_its_server_stopped(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with GrpcServer() as server:
            async with connection_to(lab, server.address) as connection:
                assert await connection.call("echo", b"once") == b"once"
                assert connection.usable()
                await beside(lab, server.stop)
                await lab.until(lambda: not connection.usable())
                error = await refusal(connection.call("echo", b"again"))
                assert (error.code, error.unsent) == ("UNAVAILABLE", True)

    run(flavor, scenario)


def test_calls_under_way_end_with_a_server_that_stops_at_once(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with GrpcServer() as server:
            async with connection_to(lab, server.address) as connection:
                names = [b"%d" % number for number in range(8)]
                jobs = [lab.start(refusal(connection.call("hang", name))) for name in names]
                await lab.until(lambda: server.acted.total() == 8)
                await beside(lab, server.stop)
                for job in jobs:
                    error = await job.result()
                    assert (error.code, error.unsent) in [
                        ("UNAVAILABLE", False),
                        ("CANCELLED", False),
                    ]
                await lab.until(lambda: not connection.usable())

    run(flavor, scenario)


def test_calls_under_way_are_answered_by_a_server_that_stops_with_grace(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with GrpcServer() as server:
            async with connection_to(lab, server.address) as connection:
                names = [b"%d" % number for number in range(8)]
                jobs = [lab.start(connection.call("hang", name)) for name in names]
                await lab.until(lambda: server.acted.total() == 8)
                await beside(lab, server.stop, SOON)
                await lab.until(lambda: not connection.usable())
                late = await refusal(connection.call("echo", b"late"))
                assert (late.code, late.unsent) == ("UNAVAILABLE", True)
                server.released.set()
                assert [await job.result() for job in jobs] == names
                assert b"late" not in server.acted

    run(flavor, scenario)


def test_no_call_is_lost_when_connections_grow_old(flavor: str) -> None:
    """The server takes leave of each connection after a moment, under constant calls."""
    outcomes: dict[bytes, str] = {}
    options = {"grpc.max_connection_age_ms": 100, "grpc.max_connection_age_grace_ms": 10_000}

    async def scenario(lab: Lab) -> None:
        async def work(number: int) -> None:
            for count in range(150):
                name = b"%d of %d" % (count, number)
                try:
                    assert await wire.call(0, 0, "/test/linger", name, SOON, ()) == name
                    outcomes[name] = "answered"
                except RpcError as error:
                    outcomes[name] = "unsent" if error.unsent else f"unknown: {error}"

        async with wire_to(lab, server.address) as wire:
            jobs = [lab.start(work(number)) for number in range(8)]
            for job in jobs:
                await job.result(60)

    with GrpcServer(options) as server:
        run(flavor, scenario)
    answered = {name for name, outcome in outcomes.items() if outcome == "answered"}
    assert Counter(outcomes.values()).keys() <= {"answered", "unsent"}
    assert len(outcomes) == 8 * 150
    assert server.acted == dict.fromkeys(answered, 1)
    assert len(server.peers) > 2
    gc.collect()  # a connection that was left open would be an error here


def test_an_old_connection_is_closed_with_its_last_call(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            side = await beside(lab, script.accept)
            side.greet()
            jobs = [lab.start(connection.call("any")) for _ in range(2)]
            numbers = [(await beside(lab, side.next, DATA)).number for _ in range(2)]
            assert numbers == [1, 3]
            connection.retire()
            assert not connection.usable()
            assert (await refusal(connection.call("any"))).unsent
            side.says(answer(3, b"three"))
            await lab.until(lambda: any(job.done() for job in jobs))
            side.says(answer(1, b"one"))
            assert {await job.result() for job in jobs} == {b"one", b"three"}
            await beside(lab, side.until_closed)

    with Script() as script:
        run(flavor, scenario)


def test_an_idle_connection_is_closed_when_it_is_left(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            side = await beside(lab, script.accept)
            connection.retire()
            await beside(lab, side.until_closed)
            assert (await refusal(connection.call("any"))).unsent

    with Script() as script:
        run(flavor, scenario)


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_call_that_was_sent_is_not_unsent_when_the_server_dies(flavor: str, how: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            job = lab.start(refusal(connection.call("any")))
            side = await beside(lab, script.accept)
            side.greet()
            await beside(lab, side.next, DATA)
            if how == "cut":
                side.says(begun(1)[:-3])
            side.close(abruptly=how == "reset")
            error = await job.result()
            assert (error.code, error.unsent) == ("UNAVAILABLE", False)
            await lab.until(lambda: not connection.usable())

    with Script() as script:
        run(flavor, scenario)


def test_a_call_that_the_server_disowns_is_unsent(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            jobs = [lab.start(refusal(connection.call("any"))) for _ in range(2)]
            side = await beside(lab, script.accept)
            side.greet()
            numbers = [(await beside(lab, side.next, HEADERS)).number for _ in range(2)]
            assert numbers == [1, 3]
            side.says(farewell(1, 0, b"restarting"))
            await lab.until(lambda: any(job.done() for job in jobs))
            side.close()
            errors = [await job.result() for job in jobs]
            assert sorted(error.unsent for error in errors) == [False, True]
            (disowned,) = [error for error in errors if error.unsent]
            assert "restarting" in disowned.details

    with Script() as script:
        run(flavor, scenario)


def test_closing_a_line_ends_its_calls(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, script.address) as connection:
            jobs = [lab.start(refusal(connection.call("any"))) for _ in range(4)]
            side = await beside(lab, script.accept)
            side.greet()
            numbers = [(await beside(lab, side.next, DATA)).number for _ in range(4)]
            assert numbers == [1, 3, 5, 7]
            await connection.close()
            for job in jobs:
                error = await job.result()
                assert (error.code, error.unsent) == ("UNAVAILABLE", False)
                assert "closed" in error.details
            await beside(lab, side.until_closed)
            assert (await refusal(connection.call("any"))).unsent

    with Script() as script:
        run(flavor, scenario)
