"""Callers of mode=lease that share a packet: none is held up, harmed or misled by another."""

from __future__ import annotations

import pytest

from fencelock import EngineError
from fencelock.engines.mysql import group_commit
from fencelock.engines.mysql.group_commit import HELD_UP_S
from fencelock.model import Busy, Grant, Request
from tests.engines.mysql.packets import NAMES, NEVER_S, Packet, mode_of, warm
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is made to stand in line stays there until the test lets it go."""
    monkeypatch.setattr(group_commit, "HELD_UP_S", NEVER_S)


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


def test_a_line_that_does_not_move_goes_another_way(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many callers as there are lanes wait for rows that a transaction has locked."""
    monkeypatch.setattr(group_commit, "HELD_UP_S", HELD_UP_S)

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
