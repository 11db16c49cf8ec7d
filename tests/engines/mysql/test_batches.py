"""Callers of mode=lease that share a packet: none is held up, harmed or misled by another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from fencelock import EngineError, OutcomeUnknown
from fencelock.engines.mysql import batching
from fencelock.engines.mysql.batching import HELD_UP_S, Batches
from fencelock.engines.mysql.lease import LeaseMode
from fencelock.model import Busy, Grant, Request
from tests.faults.flavors import Job, Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy

NAMES = [f"seat:{number}" for number in range(6)]
NEVER_S = 100.0
T = TypeVar("T")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is made to stand in line stays there until the test lets it go."""
    monkeypatch.setattr(batching, "HELD_UP_S", NEVER_S)


def mode_of(client: Any) -> LeaseMode:
    mode: LeaseMode = client._core.engine._mode
    return mode


class Packet:
    """All that is asked for within the block stands in line; then it goes together."""

    def __init__(self, lab: Lab, client: Any) -> None:
        self._lab = lab
        self._batches: Batches = mode_of(client)._batches
        self._jobs: list[Job[Any]] = []

    async def __aenter__(self) -> Packet:
        self._batches._under_way += self._batches._lanes
        return self

    async def add(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        """Have somebody stand in line, behind those who do."""
        before = len(self._batches._line)
        job = self._lab.start(work)
        self._jobs.append(job)
        await self._lab.until(lambda: len(self._batches._line) > before, "somebody in line")
        return job

    async def __aexit__(self, *_: object) -> None:
        self._batches._under_way -= self._batches._lanes - 1
        self._batches._next()


async def warm(lab: Lab, server: SqlServer, table: str, port: int | None = None) -> Any:
    """A client that knows the rows of all names, and does not give up soon."""
    client = await lab.connect(server.url(port=port), table=table, patience=60)
    for name in NAMES:
        await (await client.lock(name, ttl=60).acquire()).release()
    return client


def test_many_names_are_one_round_trip(flavor: str, server: SqlServer, table: str) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await warm(lab, server, table, proxy.port)
            proxy.count_from_now()
            async with Packet(lab, client) as packet:
                jobs = [await packet.add(client.lock(n, ttl=60).acquire()) for n in NAMES]
            leases = [await job.result() for job in jobs]
            assert proxy.requests == 1
            for name, lease in zip(NAMES, leases, strict=True):
                (holding,) = await client.holders(name)
                assert holding.fence == lease.fence
            proxy.count_from_now()
            async with Packet(lab, client) as packet:
                freed = [await packet.add(lease.release()) for lease in leases]
            assert [await job.result() for job in freed] == [True] * len(NAMES)
            assert proxy.requests == 1
            assert await client.scan("seat:") == []

        run(flavor, scenario)


def test_a_locked_row_holds_up_nobody_else(flavor: str, server: SqlServer, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await warm(lab, server, table)
        connection = server.connect()
        connection.begin()
        with connection.cursor() as cursor:  # as fencelock.sql.verify() does
            cursor.execute(
                f"SELECT fence FROM {table}_locks WHERE name=%s LOCK IN SHARE MODE", (NAMES[2],)
            )
        async with Packet(lab, client) as packet:
            jobs = [await packet.add(client.lock(n, ttl=60).acquire()) for n in NAMES]
        for job in jobs[:2] + jobs[3:]:
            await (await job.result()).release()
        assert not jobs[2].done()
        connection.rollback()
        connection.close()
        await (await jobs[2].result()).release()

    run(flavor, scenario)


@pytest.mark.parametrize("code", [1213, 1644])
def test_an_error_concerns_only_whose_it_is(
    flavor: str, server: SqlServer, table: str, code: int
) -> None:
    """One name makes the server fail, as a deadlock (1213) and as a defect would."""

    async def scenario(lab: Lab) -> None:
        client = await warm(lab, server, table)
        server.ask(
            f"CREATE TRIGGER locks.{table}_fails BEFORE UPDATE ON locks.{table}_locks FOR EACH ROW"
            f" IF NEW.name='{NAMES[2]}' THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO={code},"
            " MESSAGE_TEXT='not this one'; END IF"
        )
        async with Packet(lab, client) as packet:
            jobs = [await packet.add(client.lock(n, ttl=60).acquire()) for n in NAMES]
        for job in jobs[:2] + jobs[3:]:
            assert await (await job.result()).release() is True
        with pytest.raises(EngineError, match="not this one"):
            await jobs[2].result()
        server.ask(f"DROP TRIGGER locks.{table}_fails")
        assert await client.scan("seat:") == []

    run(flavor, scenario)


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


@pytest.mark.parametrize("holder_leaves", ["first", "last", "never"])
def test_one_name_in_a_packet_goes_to_one_owner(
    flavor: str, server: SqlServer, table: str, holder_leaves: str
) -> None:
    """Statements for one name run in the order in which they came."""

    async def scenario(lab: Lab) -> None:
        client = await warm(lab, server, table)
        engine, mode = client._core.engine, mode_of(client)
        held = await engine.acquire(Request("seat:0", "holder", 60.0))
        async with Packet(lab, client) as packet:
            if holder_leaves == "first":
                await packet.add(engine.release(held))
            jobs = []
            for owner in ("one", "two"):
                mode._is_warm("seat:0", engine.world.now())
                request = Request("seat:0", owner, 60.0, waits=True)
                jobs.append(await packet.add(engine.acquire(request)))
            if holder_leaves == "last":
                await packet.add(engine.release(held))
        one, two = [await job.result() for job in jobs]
        assert isinstance(two, Busy)
        if holder_leaves == "first":
            assert isinstance(one, Grant)
            assert one.fence > held.fence
            held = one
        else:
            assert isinstance(one, Busy)
        holders = await client.holders("seat:0")
        assert [h.fence for h in holders] == ([] if holder_leaves == "last" else [held.fence])

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


def test_a_line_that_does_not_move_goes_another_way(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many callers as there are lanes wait for rows that a transaction has locked."""
    monkeypatch.setattr(batching, "HELD_UP_S", HELD_UP_S)

    async def scenario(lab: Lab) -> None:
        client = await warm(lab, server, table)
        batches = mode_of(client)._batches
        batches._lanes = 2
        connection = server.connect()
        connection.begin()
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table}_locks WHERE name IN %s FOR UPDATE", (NAMES[:2],))
        stuck = [lab.start(client.lock(name, ttl=60).acquire()) for name in NAMES[:2]]
        await lab.until(lambda: batches._under_way == 2, "two who wait for their rows")
        jobs = [lab.start(client.lock(name, ttl=60).acquire()) for name in NAMES[2:]]
        for job in jobs:
            assert await (await job.result()).release() is True
        assert not any(job.done() for job in stuck)
        connection.rollback()
        connection.close()
        for job in stuck:
            await (await job.result()).release()
        assert batches._under_way == 0

    run(flavor, scenario)


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
