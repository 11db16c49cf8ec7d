"""Locks that live in a session: its end is told at once, not with the next renewal."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fencelock import SessionEnded
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]

LONG = 3600.0  # the next renewal is twenty minutes away

MODES = ("mode=advisory", "mode=advisory&bound=transaction", "mode=row")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["terminated", "reset"])
def test_a_holder_is_told_at_once_that_its_session_has_ended(
    how: str, mode: str, flavor: str, proxy: Proxy, link: Link, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        where = f"postgresql://{USER}@{proxy.address}/postgres?table={table}&{mode}"
        client = await lab.connect(f"{where}&application_name={table}")
        leases = [await client.lock(name, ttl=LONG).acquire() for name in ("seat:1", "seat:2")]
        if how == "terminated":
            end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            link.execute(f"{end} WHERE application_name = '{table}'".encode())
        else:
            proxy.reset()
        for lease in leases:
            assert await lease.lost.wait(SOON)
            with pytest.raises(SessionEnded):
                lease.check()
            assert await lease.release() is False
        again = await client.lock("seat:1", ttl=LONG).acquire(timeout=SOON)
        assert again.fence > leases[0].fence
        assert await again.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("mode", ["mode=advisory&bound=transaction", "mode=row"])
def test_a_statement_under_way_is_told_as_well_as_its_holder(
    mode: str, flavor: str, server: Postgresql, link: Link, table: str
) -> None:
    """Nobody closes the connection under the hands of its holder."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"{mode}&table={table}"))
        lease = await client.lock("seat", ttl=LONG).acquire()
        connection: Any = lease.connection
        pid = connection.info.backend_pid

        async def use() -> None:
            answer = connection.execute("SELECT pg_sleep(60)")
            if flavor == "asyncio":
                await answer

        using = lab.start(use())
        busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        await lab.until(lambda: link.execute(busy, (pid,)).fetchone(), "the statement")
        link.execute("SELECT pg_terminate_backend(%s)", (pid,))
        with pytest.raises(psycopg.OperationalError):
            await using.result()
        assert await lease.lost.wait(SOON)
        assert await lease.release() is False

    run(flavor, scenario)
