"""``mode=advisory``: locks that others know by a number, and the life of their session."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import fencelock
from fencelock import Misconfigured, Unavailable, Unsupported
from fencelock.engines._sql import server_queue
from fencelock.engines.postgresql import holder_table
from fencelock.engines.postgresql.keys import key_of
from tests.engines.postgresql.advisory import Link, sessions, via
from tests.engines.postgresql.gate import Gate, engine_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.postgresql import FOLDERS, Postgresql
from tests.servers.proxy import Proxy
from tests.servers.server import program, until
from tests.servers.shared import shared

HELD = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND classid = 0"


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


def test_a_free_lock_takes_one_round_trip_and_one_to_give_back(
    flavor: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder_table, "SHOW_S", 600.0)  # a stall would have it shown

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


def test_a_pooler_of_transactions_is_refused(flavor: str) -> None:
    """H63: with the advice to use what works there."""
    pooler = shared(Pgbouncer)

    async def scenario(lab: Lab) -> None:
        for options in ("mode=advisory",):
            with pytest.raises(Misconfigured, match="mode=lease"):
                _ = await lab.connect(pooler.url(options))
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


def test_a_waiter_that_gave_up_before_the_server_had_heard_it_leaves_its_queue(
    flavor: str, server: Postgresql, link: Link, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server forgets a cancellation for which there is no statement yet."""
    monkeypatch.setattr(server_queue, "CANCEL_S", SOON)  # else a stall would end its session
    stands = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = %s"

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))
        lock, engine = client.lock(table, ttl=30), engine_of(client)
        lease = await lock.acquire()
        while not engine._sessions._spare:  # a session that is used again
            assert await lock.try_acquire(timeout=0.05) is None
        pid = engine._sessions._spare[-1].pid
        gate = Gate(lab, engine._wire, "pg_cancel_backend", answered=True)
        os.kill(pid, signal.SIGSTOP)
        try:
            waiting = lab.start(lock.try_acquire(timeout=0.05))
            await gate.reached()
        finally:
            os.kill(pid, signal.SIGCONT)
        await lab.until(lambda: link.execute(stands, (pid,)).fetchone(), "the waiter to stand")
        gate.open()
        assert await waiting.result() is None
        await lab.until(lambda: not link.execute(stands, (pid,)).fetchone(), "the waiter to leave")
        await lease.release()

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
            await lab.until(
                lambda: link.execute(waiting).fetchone() == (0,), "the queue to be empty"
            )
        await lease.release()
        async with client.lock("seat", timeout=0):
            pass

    run(flavor, scenario)
    until(lambda: not sessions(link), "all sessions to be gone")


LET_IN = "SELECT pg_advisory_unlock(%s), pg_cancel_backend(%s)"
"""Let a waiter in and break its statement off before it knows: what its session was granted stays,
since the advisory lock of a session outlives an error."""


def test_a_waiter_that_is_let_in_as_it_gives_up_keeps_nothing(
    flavor: str, server: Postgresql, link: Link, table: str
) -> None:
    key = key_of(table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))

        async def cancel(session: Any, within: float) -> None:
            link.execute(LET_IN, (key, session.pid))

        engine_of(client)._queue._cancel = cancel
        link.execute("SELECT pg_advisory_lock(%s)", (key,))
        assert await client.lock(table, ttl=30).try_acquire(timeout=0.1) is None
        assert link.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone() == (True,)
        link.execute("SELECT pg_advisory_unlock(%s)", (key,))

    run(flavor, scenario)


def test_a_waiter_that_is_let_in_as_somebody_breaks_it_off_is_let_in_again(
    flavor: str, server: Postgresql, link: Link, table: str
) -> None:
    key = key_of(table)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))
        link.execute("SELECT pg_advisory_lock(%s)", (key,))
        waiting = lab.start(client.lock(table, ttl=30, timeout=SOON).acquire())
        await lab.until_queued(client, table, 1)
        (waiter,) = (await client.inspect(table)).waiters
        link.execute(LET_IN, (key, waiter.meta["pid"]))
        await (await waiting.result()).release()

    run(flavor, scenario)
