"""Locks that a session carries end with it, and their holders are told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fencelock
from tests.engines.mysql.conftest import Set
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy


def kill_all(server: SqlServer) -> None:
    """End every session of the account that the tests use."""
    for (session,) in server.ask(
        "SELECT id FROM information_schema.processlist WHERE user='tester'"
    ):
        try:
            server.ask(f"KILL {session}")
        except Exception as error:  # it has ended meanwhile
            if "Unknown thread" not in str(error):
                raise


def test_a_holder_whose_session_is_killed_is_told(flavor: str, table: str, own: SqlServer) -> None:
    """H61, H69: no reconnect counts as still holding; what comes after is a new lease."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode="advisory", table=table)
        lease = await client.lock("seat", ttl=1.5).acquire()
        kill_all(own)
        assert await lease.lost.wait(10)
        assert isinstance(_loss(lease), fencelock.SessionEnded | fencelock.Expired)
        assert await lease.release() is False
        again = await client.lock("seat", ttl=1.5, timeout=10).acquire()
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


@pytest.mark.parametrize("how", ["killed", "reset"])
def test_a_holder_is_told_at_once_that_its_session_has_ended(
    flavor: str, how: str, table: str, own: SqlServer
) -> None:
    """Not with the next renewal, which is twenty minutes away."""
    with Proxy(own.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(own.url(port=proxy.port), mode="advisory", table=table)
            leases = [await client.lock(name, ttl=3600).acquire() for name in ("seat", "desk")]
            if how == "killed":
                kill_all(own)
            else:
                proxy.reset()
            for lease in leases:
                assert await lease.lost.wait(10)
                assert isinstance(_loss(lease), fencelock.SessionEnded)
                assert await lease.release() is False
            again = await client.lock("seat", ttl=3600, timeout=10).acquire()
            assert again.fence > leases[0].fence
            await again.release()

        run(flavor, scenario)


def _loss(lease: object) -> BaseException | None:
    try:
        lease.check()  # type: ignore[attr-defined]
    except fencelock.LeaseLost as error:
        return error
    return None


def test_a_lease_survives_the_end_of_its_connections(
    flavor: str, table: str, own: SqlServer
) -> None:
    """mode=lease is tied to no session."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), table=table)
        lease = await client.lock("seat", ttl=3).acquire()
        kill_all(own)
        await lab.until_renewed(lease)
        kill_all(own)
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_holder_that_is_cut_off_loses_the_lock_to_others_in_time(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H62: the server ends a session that is silent for longer than its lock may last."""
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            through = server.url(port=proxy.port)
            client = await lab.connect(through, mode="advisory", table=table, request_timeout=2)
            other = await lab.connect(server.url(), mode="advisory", table=table, request_timeout=2)
            lease = await client.lock("seat", ttl=2).acquire()
            proxy.block()
            rival = await other.lock("seat", ttl=30, timeout=30).acquire()
            assert not lease
            assert rival.fence > lease.fence
            proxy.reset()
            proxy.heal()
            await rival.release()

        run(flavor, scenario)


def test_an_idle_holder_keeps_its_lock(
    flavor: str, table: str, own: SqlServer, setting: Set
) -> None:
    """H68: the server's wait_timeout is shorter than the hold, and the hold outlives it."""
    with setting(wait_timeout=1, interactive_timeout=1):

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(own.url(), mode="advisory", table=table)
            other = await lab.connect(own.url(), mode="advisory", table=table)
            lease = await client.lock("seat", ttl=3).acquire()
            assert await lease.lost.wait(4.5) is False
            assert await other.lock("seat").try_acquire() is None
            assert await lease.release() is True

        run(flavor, scenario)


def test_many_that_begin_at_once_share_the_sessions_of_the_pool(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="advisory", table=table, pool=3)
        asked = [lab.start(client.lock(f"seat:{n}").acquire()) for n in range(12)]
        leases = [await one.result(30) for one in asked]
        engine: Any = client._core.engine
        assert len(engine._sessions) == 2  # the third connection is for looking
        assert [await lease.release() for lease in leases] == [True] * 12

    run(flavor, scenario)


def test_two_holders_in_one_client_are_kept_apart(server: SqlServer, table: str) -> None:
    """H66: the server would grant a second time to the same session, and here all share one."""
    rounds, count = 30, 6
    together = threading.Barrier(count)
    granted: list[int] = []
    with fencelock.connect(server.url(), mode="advisory", table=table, pool=1) as client:

        def contend() -> None:
            for number in range(rounds):
                together.wait(20)
                lease = client.lock(f"seat:{number}").try_acquire()
                granted.extend([number] if lease is not None else [])
                together.wait(20)
                if lease is not None:
                    lease.release()

        with client.lock("other"):  # from now on the only session carries a lock, and is shared
            threads = [threading.Thread(target=contend) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert granted == list(range(rounds))


def test_a_fraction_of_a_second_is_waited_for_and_no_more(
    flavor: str, server: SqlServer, table: str
) -> None:
    """H70: MySQL cuts fractions off; a timeout of ours ends in the client."""

    async def scenario(lab: Lab) -> None:
        client, other = [
            await lab.connect(server.url(), mode="advisory", table=table) for _ in range(2)
        ]
        async with client.lock("seat"):
            for timeout in (0.01, 0.2):
                with pytest.raises(fencelock.AcquireTimeout):
                    await other.lock("seat", timeout=timeout).acquire()
        lease = await other.lock("seat", timeout=0.2).acquire()
        await lease.release()

    run(flavor, scenario)
