"""``mode=lease``: rows that end, and what becomes of connections, rows and rights."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

import fencelock
from fencelock import Denied, Misconfigured, Unavailable
from fencelock.engines import waiters
from fencelock.engines.postgresql import listener
from fencelock.engines.postgresql.wire.connection_threads import FRESH_S
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]


def via(proxy: Proxy, options: str) -> str:
    return f"postgresql://{USER}@{proxy.address}/postgres?{options}"


def test_a_free_lock_takes_one_round_trip_and_one_to_give_back(
    flavor: str, proxy: Proxy, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, f"table={table}"))
        lock = client.lock("seat")
        await (await lock.acquire()).release()
        proxy.count_from_now()
        lease = await lock.acquire()
        assert proxy.requests == 1
        await lease.release()
        assert proxy.requests == 2
        assert proxy.connections == 0

    run(flavor, scenario)


def test_a_lease_outlives_the_connection_it_came_by(
    flavor: str, proxy: Proxy, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, f"table={table}"))
        rival = await lab.connect(server.url(f"table={table}"))
        lease = await client.lock("seat", ttl=30).acquire()
        proxy.reset()
        lease.check()
        assert await rival.lock("seat").try_acquire() is None
        await lab.let_pass(2 * FRESH_S)  # nobody looks at a connection that has just spoken
        await lease.renew()
        assert await lease.release() is True

    run(flavor, scenario)


def test_the_first_in_line_gets_a_lease_that_ends_by_whoever_notices_it(
    flavor: str, server: Postgresql, table: str
) -> None:
    """H20: it is mostly the first waiter itself who finds the lease over."""

    async def scenario(lab: Lab) -> None:
        holder, first, second = [await lab.connect(server.url(f"table={table}")) for _ in range(3)]
        for turn in range(6):
            name = f"seat:{turn}"
            ended = await holder.lock(name, ttl=0.3, renew=False).acquire()
            mine = lab.start(first.lock(name, ttl=30).acquire(timeout=SOON))
            await lab.until_all_queued(holder, name, mine)
            theirs = lab.start(second.lock(name, ttl=30).acquire(timeout=SOON))
            await lab.until_all_queued(holder, name, mine, theirs)
            lease = await mine.result()
            await lease.release()
            last = await theirs.result()
            assert ended.fence < lease.fence < last.fence
            await last.release()
            assert await ended.release() is False

    run(flavor, scenario)


def test_200_waiters_ask_nothing_while_they_wait(
    proxy: Proxy, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (listener, waiters):  # on a busy machine the first would come meanwhile
        monkeypatch.setattr(module, "HEARTBEAT_S", 600.0)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, f"table={table}"))
        lease = await client.lock("seat", ttl=600).acquire()

        async def take_turn() -> None:
            async with client.lock("seat", timeout=5 * SOON):
                pass

        jobs = [lab.start(take_turn()) for _ in range(200)]
        await lab.until_queued(client, "seat", 200)
        for _ in range(20):  # until the listener has looked once at what they wait for
            proxy.count_from_now()
            await lab.let_pass(0.5)
            if not proxy.requests:
                break
        proxy.count_from_now()
        await lab.let_pass(3.0)
        assert proxy.requests == 0
        await lease.release()
        for job in jobs:
            await job.result(60)

    run("asyncio", scenario)


def test_tasks_on_many_locks_share_few_connections(proxy: Proxy, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, f"table={table}&pool=8"))

        async def pairs(number: int) -> None:
            for _ in range(5):
                await (await client.lock(f"seat:{number}", ttl=30).acquire()).release()

        for job in [lab.start(pairs(number)) for number in range(256)]:
            await job.result()
        assert proxy.connections <= 8 + 2  # the keeper has one of its own, and so has making tables

    run("asyncio", scenario)


def test_one_bad_statement_of_a_batch_costs_the_others_nothing(
    server: Postgresql, table: str, link: Link
) -> None:
    """Tasks that ask together share a transaction; the failure of one must not be theirs."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        link.execute(f"ALTER TABLE {table}_locks ADD CHECK (name <> 'bad')".encode())
        jobs = [lab.start(client.lock(f"seat:{n}").acquire()) for n in range(20)]
        bad = lab.start(client.lock("bad").acquire())
        for job in jobs:
            await (await job.result()).release()
        with pytest.raises(fencelock.EngineError, match="23514"):
            await bad.result()

    run("asyncio", scenario)


def test_unused_rows_go_and_the_fence_does_not_go_back(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Even if the clock that lifts fences has been set back meanwhile."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        await (await client.lock("seat").acquire()).release()
        high = 2**52
        long_ago = "now() - interval '2 minutes'"
        link.execute(f"UPDATE {table}_locks SET fence = {high}, expires_at = {long_ago}".encode())
        _ = await lab.connect(server.url(f"table={table}"))  # who comes tidies up
        assert link.execute(f"SELECT count(*) FROM {table}_locks".encode()).fetchone() == (0,)
        async with client.lock("seat") as lease:
            assert lease.fence == high + 1
        async with client.lock("other") as lease:
            assert lease.fence == high + 1

    run(flavor, scenario)


def test_a_row_in_use_is_not_tidied_away(server: Postgresql, table: str, link: Link) -> None:
    with fencelock.connect(server.url(f"table={table}")) as client:
        with client.lock("held", ttl=30):
            link.execute(f"SELECT {table}_tidy()".encode())
            assert link.execute(f"SELECT name FROM {table}_locks".encode()).fetchall() == [
                ("held",)
            ]


def test_many_clients_may_be_the_first(server: Postgresql, table: str) -> None:
    """All of them find no tables; each is served, and the tables are made once."""
    served: list[int] = []
    barrier = threading.Barrier(8)

    def come() -> None:
        barrier.wait(SOON)
        with fencelock.connect(server.url(f"table={table}")) as client:
            with client.lock("seat", timeout=SOON) as lease:
                served.append(lease.fence)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(served)) == 8


def test_who_may_not_create_tables_is_told_what_to_do(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    link.execute(f"CREATE ROLE {table} LOGIN".encode())
    url = server.url(f"table={table}").replace(f"//{USER}@", f"//{table}@")

    async def refused(lab: Lab) -> None:
        with pytest.raises(Denied, match="fencelock schema postgresql"):
            _ = await lab.connect(url)

    async def served(lab: Lab) -> None:
        client = await lab.connect(url)
        async with client.lock("seat"):
            pass

    run(flavor, refused)
    from fencelock.engines.postgresql.tables import schema

    link.execute(schema(table).encode())
    for kind in ("TABLES", "SEQUENCES"):
        link.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {table}".encode())
    run(flavor, served)
    link.execute(f"DROP OWNED BY {table}; DROP ROLE {table}".encode())


def test_tables_may_lie_in_a_schema_of_their_own(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    link.execute(f"CREATE SCHEMA IF NOT EXISTS s_{table}".encode())

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"schema=s_{table}"))
        async with client.lock("seat"):
            assert link.execute(f"SELECT name FROM s_{table}.fencelock_locks".encode()).fetchall()

    run(flavor, scenario)


@pytest.mark.parametrize("name", ["x; DROP TABLE y", "Upper", "1st", "", 'quo"te', "x" * 32])
def test_identifiers_come_from_a_fixed_set(name: str, server: Postgresql) -> None:
    for option in ("table", "schema"):
        with pytest.raises(Misconfigured, match="no name for tables"):
            fencelock.connect(server.url(), **{option: name}).open()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_database_that_defaults_to_stricter_isolation_is_served(
    level: str, flavor: str, own_server: Postgresql
) -> None:
    own_server.psql(f"ALTER DATABASE postgres SET default_transaction_isolation = '{level}'")

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(own_server.url()) for _ in range(3)]

        async def turns(number: int) -> None:
            for _ in range(10):
                async with clients[number % 3].lock("seat", ttl=30, timeout=SOON):
                    pass

        for job in [lab.start(turns(number)) for number in range(6)]:
            await job.result(60)

    run(flavor, scenario)


def test_a_row_that_a_stranger_keeps_locked_is_a_clear_error(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&request_timeout=3"))
        await (await client.lock("seat").acquire()).release()
        with psycopg.connect(server.conninfo) as stranger:
            stranger.execute(f"SELECT * FROM {table}_locks FOR UPDATE".encode())
            with pytest.raises(Unavailable, match="pg_stat_activity"):
                await client.lock("seat").try_acquire()
        async with client.lock("seat"):
            pass

    run(flavor, scenario)
