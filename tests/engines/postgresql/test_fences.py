"""Fences of ``mode=lease``: they only grow, whatever happens to rows and clocks."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.faults.flavors import Lab, run
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]
BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"


def test_a_fence_grows_if_the_row_is_removed_while_several_are_taken(
    flavor: str, server: Postgresql, link: Link, table: str
) -> None:
    """The clock was set back since the row was used, so only the floor has its fence."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        async with client.lock("b"):
            pass
        ahead = (
            f"UPDATE {table}_locks SET fence = fence + 1000000000,"
            " expires_at = now() - interval '2 minutes' WHERE name = 'b' RETURNING fence"
        )
        ((before,),) = link.execute(ahead.encode()).fetchall()
        with psycopg.connect(server.conninfo) as other:  # it inserts the row of "a", and fails
            other.execute(
                f"INSERT INTO {table}_locks VALUES"
                " ('a', '', 0, 0, now(), now(), false, false, '')".encode()
            )
            pid = other.info.backend_pid
            taking = lab.start(client.locks("a", "b", ttl=60).acquire())
            await lab.until(
                lambda: taking.done() or link.execute(BLOCKED, (pid,)).fetchone(), "a wait"
            )
            link.execute(f"SELECT {table}_tidy()".encode())
            rows = link.execute(f"SELECT name FROM {table}_locks WHERE name = 'b'".encode())
            assert not rows.fetchall(), "the row was not removed"
            other.rollback()
        leases = await taking.result()
        assert leases["b"].fence > before
        await leases.release()

    run(flavor, scenario)
