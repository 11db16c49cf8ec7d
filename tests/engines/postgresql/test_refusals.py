"""A server that refuses the rest of a request after it has locked: nothing stays locked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fencelock import Denied, Unavailable
from fencelock.engines._sql.transaction_pool import TransactionPool
from fencelock.sync import drive
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]
ALL = (
    "GRANT USAGE ON SCHEMA public TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role};"
    " GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}"
)


@pytest.fixture
def role(server: Postgresql, table: str) -> Iterator[str]:
    """A role that may do all that ``allow`` has allowed it."""
    name = f"app_{table}"
    server.psql(f"CREATE ROLE {name} LOGIN")
    yield name
    server.psql(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def allow(server: Postgresql, role: str) -> None:
    server.psql(ALL.format(role=role))


def url(server: Postgresql, role: str, options: str) -> str:
    return f"postgresql://{role}@{server.address}/postgres?{options}"


def test_a_try_whose_fence_is_refused_leaves_nothing_locked(
    flavor: str, server: Postgresql, table: str, role: str
) -> None:
    """A session's advisory lock outlives the error; the other lease of that session goes on."""

    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"mode=advisory&table={table}"))
        allow(server, role)
        client = await lab.connect(url(server, role, f"mode=advisory&table={table}"))
        kept = await client.lock(f"kept {table}", ttl=60).acquire()
        server.psql(f"REVOKE ALL ON SEQUENCE fencelock_advisory_fence FROM {role}")
        for ttl in (60, 50):  # the second also changes the idle limit of the session
            with pytest.raises(Denied, match="grant the right"):
                await client.lock(f"seat {table}", ttl=ttl).try_acquire()
            async with rival.lock(f"seat {table}", timeout=0):
                pass
        kept.check()
        assert await rival.lock(f"kept {table}").try_acquire() is None
        allow(server, role)
        async with client.lock(f"seat {table}", timeout=0):
            assert await rival.lock(f"seat {table}").try_acquire() is None
        async with rival.lock(f"seat {table}", timeout=0):
            pass
        assert await kept.release() is True

    run(flavor, scenario)


BOUND = {
    "mode=row": "REVOKE ALL ON SEQUENCE {table}_fence FROM {role}",
    "mode=advisory&bound=transaction": (
        "REVOKE ALL ON SEQUENCE fencelock_advisory_fence FROM {role}"
    ),
}
CONNECTED = "SELECT 1 FROM pg_stat_activity WHERE usename = %s"
IN_TRANSACTION = "SELECT 1 FROM pg_stat_activity WHERE usename = %s AND state LIKE 'idle in tr%%'"


@pytest.mark.parametrize("options", BOUND)
def test_a_try_that_was_refused_leaves_no_transaction_open(
    options: str, flavor: str, server: Postgresql, table: str, role: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"{options}&table={table}"))
        allow(server, role)
        client = await lab.connect(url(server, role, f"{options}&table={table}"))
        async with client.lock(f"seat {table}"):
            pass
        server.psql(BOUND[options].format(table=table, role=role))
        for _ in range(3):
            with pytest.raises(Denied):
                await client.lock(f"seat {table}", ttl=60).try_acquire()
        await lab.until(
            lambda: not link.execute(IN_TRANSACTION, (role,)).fetchone(), "the transactions to end"
        )
        async with rival.lock(f"seat {table}", timeout=SOON):
            pass

    run(flavor, scenario)


@pytest.mark.parametrize("options", BOUND)
def test_a_lock_is_granted_even_if_its_holder_cannot_be_shown(
    options: str, flavor: str, server: Postgresql, table: str, role: str
) -> None:
    """That row is for people to read; the transaction holds the lock, whatever became of it."""

    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"{options}&table={table}"))
        allow(server, role)
        client = await lab.connect(url(server, role, f"{options}&table={table}"))
        server.psql(f"REVOKE INSERT, UPDATE ON {table}_holders FROM {role}")
        lease = await client.lock(f"seat {table}", ttl=60).acquire()
        assert await rival.lock(f"seat {table}").try_acquire() is None
        assert await lease.release() is True
        async with rival.lock(f"seat {table}", timeout=0):
            pass

    run(flavor, scenario)


class Wired:
    """A connection of a pool of transactions."""

    connection = None
    open = failed = dead = False

    async def wait_briefly(self, seconds: float) -> None:
        """Nothing to wait for."""

    def drop(self) -> None:
        self.dead = True


def test_a_pool_that_is_closed_ends_what_it_has_lent() -> None:
    opened: list[Wired] = []

    async def connect() -> Wired:
        opened.append(Wired())
        return opened[-1]

    async def send(transaction: Wired) -> None:
        if transaction.dead:
            raise Unavailable

    pool = TransactionPool(connect, send, send)
    lent = drive(pool.begin("one"))
    returned = drive(pool.begin("two"))
    pool.close()
    assert lent.dead, "its call may never return"
    pool.end_loan("two")
    drive(pool.undo(returned))
    with pytest.raises(Unavailable):
        drive(pool.begin("three"))
    assert all(one.dead for one in opened)


@pytest.mark.parametrize("mode", ["lease", "advisory", "row"])
def test_a_client_that_is_refused_keeps_no_connection(
    mode: str, flavor: str, server: Postgresql, table: str, role: str, link: Link
) -> None:
    """Not even while somebody looks at the error, which refers to all that it came through."""

    async def scenario(lab: Lab) -> None:
        with pytest.raises(Denied) as refused:
            _ = await lab.connect(url(server, role, f"mode={mode}&table={table}"))
        await lab.until(
            lambda: not link.execute(CONNECTED, (role,)).fetchone(), "its connections to end"
        )
        assert refused.value is not None

    run(flavor, scenario)
