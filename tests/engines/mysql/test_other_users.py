"""mode=advisory shares its locks with whoever uses GET_LOCK, both ways."""

from __future__ import annotations

import subprocess

from fencelock.engines.mysql import advisory
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import DATABASE, PASSWORD, USER, SqlServer
from tests.servers.server import program

_NEGATIVE = {True: "NULL", False: "1"}


def shell(server: SqlServer, sql: str) -> str:
    """What a command-line client answers: MariaDB's, which speaks to both."""
    ran = subprocess.run(
        [
            program("mariadb", "mariadb-client"),
            "--no-defaults",
            "--host=127.0.0.1",
            f"--port={server.port}",
            f"--user={USER}",
            f"--password={PASSWORD}",
            "--batch",
            "--skip-column-names",
            f"--execute={sql}",
            DATABASE,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_what_we_hold_others_do_not_get(flavor: str, server: SqlServer, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="advisory", table=table)
        name = f"{table}:report"
        async with client.lock(name):
            assert shell(server, f"SELECT GET_LOCK('{name}', 0)") == "0"
        assert shell(server, f"SELECT GET_LOCK('{name}', 0)") == "1"

    run(flavor, scenario)


def test_what_others_hold_we_wait_for(flavor: str, server: SqlServer, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="advisory", table=table)
        name = f"{table}:report"
        with server.connect() as other, other.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0), CONNECTION_ID()", (name,))
            (got, session) = cursor.fetchone()
            assert got == 1
            assert await client.lock(name).try_acquire() is None
            (shown,) = await client.holders(name)
            assert shown.meta == {"session": session}
            waiter = lab.start(client.lock(name, timeout=20).acquire())
            await lab.until(lambda: _waits(server), "a session must wait")
            cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))
            lease = await waiter.result()
            assert lease.fence > 0
            await lease.release()

    run(flavor, scenario)


def _waits(server: SqlServer) -> bool:
    rows = server.ask("SELECT id FROM information_schema.processlist WHERE state='User lock'")
    return bool(rows)


def test_a_negative_timeout_never_reaches_the_server(server: SqlServer) -> None:
    """H70: it means for ever in MySQL and NULL in MariaDB; ours are whole seconds from 0 on."""
    assert shell(server, "SELECT GET_LOCK('negative', -1)") == _NEGATIVE[server.is_mariadb]
    assert advisory.BLOCK_S == int(advisory.BLOCK_S) > 0
    assert advisory.MOMENT_S > 0
