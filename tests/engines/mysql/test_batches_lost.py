"""A packet that callers of mode=lease share: its answer is lost, or one of them leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencelock import OutcomeUnknown
from fencelock.engines.mysql import group_commit
from fencelock.model import Grant, Request
from tests.engines.mysql.packets import NAMES, NEVER_S, Packet, mode_of, warm
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is made to stand in line stays there until the test lets it go."""
    monkeypatch.setattr(group_commit, "HELD_UP_S", NEVER_S)


def test_a_lost_answer_is_unknown_to_each_and_resolved_by_each(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await warm(lab, server, table, proxy.port)
            engine = client._core.engine
            requests = [Request(name, f"owner-of-{name}", 60.0) for name in NAMES]
            proxy.lose_next_reply()
            async with Packet(lab, client) as packet:
                jobs = [await packet.add(engine.acquire(request)) for request in requests]
            for job in jobs:
                with pytest.raises(OutcomeUnknown):
                    await job.result()
            assert proxy.lost == 1
            for request in requests:
                await lab.until_held(client, request.name)  # the server may still be at it
                (holding,) = await client.holders(request.name)
                grant = await engine.acquire(request)
                assert isinstance(grant, Grant)
                assert grant.fence == holding.fence
                assert await engine.release(grant) is True

        run(flavor, scenario)


def test_a_client_resolves_the_lost_answer_of_a_packet(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await warm(lab, server, table, proxy.port)
            proxy.lose_next_reply()
            async with Packet(lab, client) as packet:
                jobs = [await packet.add(client.lock(n, ttl=60).acquire()) for n in NAMES]
            leases = [await job.result() for job in jobs]
            proxy.lose_next_reply()
            async with Packet(lab, client) as packet:
                freed = [await packet.add(lease.release()) for lease in leases]
            assert [await job.result() for job in freed] == [True] * len(NAMES)
            assert proxy.lost == 2
            assert await client.scan("seat:") == []

        run(flavor, scenario)


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel, and let the task do what it does about it until it waits for somebody else."""
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("place", [0, 1, 5], ids=["leader", "second", "last"])
@pytest.mark.parametrize("when", ["in line", "called", "under way"])
def test_a_cancelled_caller_leaves_nothing_and_harms_nobody(
    server: SqlServer, table: str, place: int, when: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await warm(lab, server, table, proxy.port)
            engine, tasks = client._core.engine, list[asyncio.Task[Any]]()
            taken_back: list[str] = []
            withdraw = engine.withdraw

            async def withdrawn(request: Request) -> None:
                taken_back.append(request.name)
                await withdraw(request)

            engine.withdraw = withdrawn

            async def acquire(name: str) -> Any:
                task = asyncio.current_task()
                assert task is not None
                tasks.append(task)
                return await client.lock(name, ttl=60).acquire()

            async with Packet(lab, client) as packet:
                jobs = [await packet.add(acquire(name)) for name in NAMES]
                if when == "in line":
                    await cancel(tasks[place])
                    assert taken_back == [NAMES[place]]
                proxy.count_from_now()
                proxy.block()
            if when == "under way":
                await lab.until(proxy.waiting, "the packet")
            if when != "in line":
                await cancel(tasks[place])
                assert taken_back == []  # that must not overtake the packet
            proxy.heal()
            with pytest.raises(asyncio.CancelledError):
                await jobs[place].result()
            leases = [await job.result() for job in jobs[:place] + jobs[place + 1 :]]
            assert proxy.requests <= 3  # the packet, and what takes one back: nobody asks again
            assert await client.holders(NAMES[place]) == []
            assert [await lease.release() for lease in leases] == [True] * len(leases)

        run("asyncio", scenario)


def test_who_asked_for_all_and_was_interrupted_leaves_nobody_waiting(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the thread that leads: the others know that they do not know."""

    async def scenario(lab: Lab) -> None:
        client = await warm(lab, server, table)
        engine, mode = client._core.engine, mode_of(client)
        ask = mode._pool.ask

        async def interrupted(sql: str, rings: bool = False) -> Any:
            await ask(sql, rings)
            if "NOWAIT" in sql:
                raise KeyboardInterrupt
            return await ask(sql, rings)

        monkeypatch.setattr(mode._pool, "ask", interrupted)
        async with Packet(lab, client) as packet:
            jobs = [await packet.add(engine.acquire(Request(n, n, 60.0))) for n in NAMES]
        with pytest.raises(KeyboardInterrupt):
            await jobs[0].result()
        for job in jobs[1:]:
            with pytest.raises(OutcomeUnknown):
                await job.result()
        assert mode._batches._under_way == 0
        monkeypatch.undo()
        for name in NAMES:
            await engine.withdraw(Request(name, name, 60.0))
        assert await client.scan("seat:") == []

    run("sync", scenario)
