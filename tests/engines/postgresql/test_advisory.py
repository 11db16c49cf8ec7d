"""``mode=advisory``: locks that others know by a number, and the life of their session."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import fencelock
from fencelock import Misconfigured, SessionEnded, Unavailable, Unsupported
from fencelock.engines.postgresql.keys import key_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.postgresql import FOLDERS, USER, Postgresql
from tests.servers.proxy import Proxy
from tests.servers.server import program, until
from tests.servers.shared import shared

Link = psycopg.Connection[Any]

HELD = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND classid = 0"


def via(proxy: Proxy, options: str = "patience=5") -> str:
    return f"postgresql://{USER}@{proxy.address}/postgres?mode=advisory&{options}"


def sessions(link: Link) -> list[int]:
    """The sessions of fencelock that hold an advisory lock of one key."""
    rows = link.execute(
        "SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
        " AND application_name = 'fencelock'"
    ).fetchall()
    return [pid for (pid,) in rows]


@contextmanager
def psql(server: Postgresql) -> Iterator[subprocess.Popen[str]]:
    """The server's own shell, which knows nothing of us."""
    command = [program("psql", server.package, *FOLDERS), "-XAtq", server.conninfo]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as shell:
        yield shell
        assert shell.stdin is not None
        shell.stdin.close()
        shell.wait(SOON)


def say(shell: subprocess.Popen[str], statement: str) -> str:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(statement + ";\n")
    shell.stdin.flush()
    return shell.stdout.readline().strip()


def test_a_key_is_shared_with_whoever_locks_it_by_hand(flavor: str, server: Postgresql) -> None:
    """psql keeps us out, and we keep psql out."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        lock = client.lock("the answer", key=42, ttl=30)
        with psql(server) as shell:
            say(shell, "SELECT pg_advisory_lock(42)")
            assert await lock.try_acquire() is None
            waiter = lab.start(lock.acquire(timeout=SOON))
            assert say(shell, "SELECT pg_advisory_unlock(42)") == "t"
            lease = await waiter.result()
            assert say(shell, "SELECT pg_try_advisory_lock(42)") == "f"
            assert await lease.release() is True
            assert say(shell, "SELECT pg_try_advisory_lock(42)") == "t"

    run(flavor, scenario)


def test_a_name_is_shared_by_its_documented_hash(server: Postgresql, link: Link) -> None:
    with fencelock.connect(server.url("mode=advisory")) as client, client.lock("seat:1A"):
        key = "('x' || substr(encode(sha256('seat:1A'), 'hex'), 1, 16))::bit(64)::bigint"  # as SQL
        assert link.execute(f"SELECT pg_try_advisory_lock({key})".encode()).fetchone() == (False,)
        assert link.execute(f"SELECT {key}".encode()).fetchone() == (key_of("seat:1A"),)


def test_names_do_not_meet(server: Postgresql) -> None:
    """H65: 140 names that are held at once, and 100,000 whose keys are worked out."""
    with fencelock.connect(server.url("mode=advisory")) as client:
        leases = [client.lock(f"lock{number}", ttl=60).try_acquire() for number in range(140)]
        assert all(leases)
        for lease in leases:
            assert lease is not None
            lease.release()
    assert len({key_of(f"lock{number}") for number in range(100_000)}) == 100_000


def test_only_this_mode_takes_keys(server: Postgresql) -> None:
    for url in (server.url(), server.url("mode=row"), "memory://keys"):
        with fencelock.connect(url) as client:
            with pytest.raises(Unsupported, match="mode=advisory"):
                client.lock("seat", key=1)
    with fencelock.connect(server.url("mode=advisory")) as client:
        wrongs: list[Any] = [True, "1", 2**63, 1.0]
        for wrong in wrongs:
            with pytest.raises(fencelock.UsageError, match="64 bits"):
                client.lock("seat", key=wrong)


def test_two_holders_of_one_client_are_kept_apart(flavor: str, server: Postgresql) -> None:
    """H66: the server itself would grant a lock twice to the same session."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        lock = client.lock("seat", ttl=30)
        lease = await lock.acquire()
        assert await lock.try_acquire() is None
        waiter = lab.start(lock.acquire(timeout=SOON))
        assert await lock.try_acquire(timeout=0.2) is None
        assert not waiter.done()
        await lease.release()
        other = await waiter.result()
        assert other.fence > lease.fence
        assert await lock.try_acquire() is None
        await other.release()

    run(flavor, scenario)


def test_a_free_lock_takes_one_round_trip_and_one_to_give_back(flavor: str, proxy: Proxy) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy))
        kept = await client.lock("kept", ttl=600).acquire()  # the session has it to do anyway
        lock = client.lock("round trips", ttl=600)
        await (await lock.acquire()).release()
        proxy.count_from_now()
        lease = await lock.acquire()
        assert proxy.requests == 1
        await lease.release()
        assert proxy.requests == 2
        assert proxy.connections == 0
        await kept.release()

    run(flavor, scenario)


@pytest.mark.parametrize("how", ["terminated", "reset"])
def test_a_holder_whose_session_ends_is_told(how: str, flavor: str, own_server: Postgresql) -> None:
    """H61, and the driver's connection would still look open."""
    with Proxy(own_server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(via(proxy))
            rival = await lab.connect(own_server.url("mode=advisory"))
            lease = await client.lock("seat", ttl=1.5).acquire()
            if how == "terminated":
                own_server.psql(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                    " AND objsubid = 1"
                )
            else:
                proxy.reset()
            other = await rival.lock("seat", ttl=30, timeout=SOON).acquire()
            await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
            with pytest.raises(SessionEnded):
                lease.check()
            assert other.fence > lease.fence
            assert await lease.release() is False
            other.check()
            await other.release()
            async with client.lock("seat", timeout=SOON) as again:  # by a new session
                assert again.fence > other.fence

        run(flavor, scenario)


def test_a_session_that_came_back_does_not_hold_what_the_old_one_held(
    flavor: str, proxy: Proxy
) -> None:
    """H69: a silent reconnect is a new session."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy))
        lease = await client.lock("reconnected", ttl=30).acquire()
        proxy.reset()
        async with client.lock("another", timeout=SOON):  # the client works again
            with pytest.raises(SessionEnded):
                await lease.renew()
        assert not lease

    run(flavor, scenario)


def test_a_partitioned_holder_is_freed_within_its_ttl(
    flavor: str, server: Postgresql, proxy: Proxy
) -> None:
    """H62: no word comes through in either direction, and no connection is reset."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(via(proxy, "patience=1"))
        rival = await lab.connect(server.url("mode=advisory"))
        lease = await client.lock("partitioned", ttl=1.0).acquire()
        proxy.block()
        other = await rival.lock("partitioned", ttl=30, timeout=SOON).acquire()
        assert not lease, "two leases on one name were true at once"
        proxy.heal()
        assert await lease.release() is False
        other.check()
        await other.release()

    run(flavor, scenario)


def test_a_client_that_stops_renewing_one_lease_keeps_the_others(
    flavor: str, server: Postgresql
) -> None:
    """Leases of one session end apart from each other."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        rival = await lab.connect(server.url("mode=advisory"))
        kept = await client.lock("kept", ttl=30).acquire()
        brief = await client.lock("brief", ttl=0.3, renew=False).acquire()
        other = await rival.lock("brief", ttl=30, timeout=SOON).acquire()
        assert not brief
        await lab.let_pass(1.5)  # past what the server would have allowed the session
        await kept.renew()
        kept.check()
        await other.release()
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_pooler_of_transactions_is_refused(flavor: str) -> None:
    """H63: with the advice to use what works there."""
    pooler = shared(Pgbouncer)

    async def scenario(lab: Lab) -> None:
        for options in ("mode=advisory",):
            with pytest.raises(Misconfigured, match="mode=lease"):
                await lab.connect(pooler.url(options))
        client = await lab.connect(pooler.url("mode=lease"))
        async with client.lock("pooled"):
            assert client.traits.push is False

    run(flavor, scenario)


def test_a_pooler_of_sessions_is_served(flavor: str, server: Postgresql) -> None:
    with Pgbouncer(server, pool_mode="session") as pooler:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(pooler.url("mode=advisory"))
            rival = await lab.connect(server.url("mode=advisory"))
            async with client.lock("pooled", ttl=30):
                assert await rival.lock("pooled").try_acquire() is None
            async with rival.lock("pooled"):
                pass

        run(flavor, scenario)


def test_a_full_lock_table_is_a_clear_error(flavor: str) -> None:
    """H67: nothing else breaks, and giving back some makes room."""
    small = {"max_locks_per_transaction": "10", "max_connections": "12"}
    with Postgresql(settings=small) as tiny:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(tiny.url("mode=advisory"))
            leases = []
            with pytest.raises(Unavailable, match="max_locks_per_transaction"):
                for number in range(20_000):
                    leases.append(await client.lock(f"seat:{number}", ttl=60).acquire())
            assert len(leases) > 100
            for lease in leases:
                lease.check()
                assert await lease.release() is True
            async with client.lock("again", timeout=0):
                pass

        run(flavor, scenario)


def test_a_waiter_that_gave_up_leaves_the_servers_queue(
    flavor: str, server: Postgresql, link: Link
) -> None:
    """H31: its session is of use again."""
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        lease = await client.lock("seat", ttl=30).acquire()
        for _ in range(3):
            assert await client.lock("seat").try_acquire(timeout=0.1) is None
            assert link.execute(waiting).fetchone() == (0,)
        await lease.release()
        async with client.lock("seat", timeout=0):
            pass

    run(flavor, scenario)
    until(lambda: not sessions(link), "all sessions to be gone")


def test_a_session_that_is_let_rest_is_nobodys_to_wait_on(server: Postgresql) -> None:
    """Two statements that met on one session would get each other's answers."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url("mode=advisory"))
        rival = await lab.connect(server.url("mode=advisory"))
        sessions: Any = rival._core.engine._mode._sessions  # type: ignore[attr-defined]
        for steps in range(12):
            lease = await client.lock("seat", ttl=30).acquire()
            assert await rival.lock("seat", ttl=30).try_acquire(timeout=0.03) is None
            resting = lab.start(sessions.let_rest())
            for _ in range(steps):
                await asyncio.sleep(0)
            waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=SOON))
            await lease.release()
            await resting.result()
            await (await waiter.result()).release()

    run("asyncio", scenario)
