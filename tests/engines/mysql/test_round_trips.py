"""How often a client speaks to the server, counted on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines.mysql import held_locks
from fencelock.model import Grant
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.proxy import Proxy

BATCH = 250  # what the keeper renews at once


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_acquire_and_release_are_one_round_trip_each(
    flavor: str, mode: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_locks, "SHOW_S", 60.0)  # a row about who holds is another request
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            url = server.url(port=proxy.port)
            client = await lab.connect(url, mode=mode, table=table)
            for name in ("warm", "seat"):  # the second is new to the client
                proxy.count_from_now()
                lease = await client.lock(name, ttl=60).acquire()
                if name == "seat":
                    assert proxy.requests == 1
                proxy.count_from_now()
                assert await lease.release() is True
                assert proxy.requests == 1

        run(flavor, scenario)


def test_many_renewals_are_one_round_trip(flavor: str, server: SqlServer, table: str) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url(port=proxy.port), table=table)
            locks = [client.lock(f"seat:{number}", ttl=60, renew=False) for number in range(BATCH)]
            leases = [await lock.acquire() for lock in locks]
            await leases[0].renew()
            grants = [lease._hold.grant for lease in leases]
            proxy.count_from_now()
            answers = await _renew(client, grants)
            assert [answer.fence for answer in answers] == [grant.fence for grant in grants]
            assert proxy.requests == 1
            for lease in leases:
                await lease.release()

        run(flavor, scenario)


async def _renew(client: Any, grants: list[Grant]) -> list[Grant]:
    answers: list[Grant] = await client._core.engine.renew(grants)
    return answers


def test_all_waiters_of_a_client_share_one_session_that_waits(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        lease = await client.lock("seat").acquire()

        async def take_turn() -> None:
            async with other.lock("seat", timeout=30):
                pass

        waiters = [lab.start(take_turn()) for _ in range(20)]
        await lab.until_queued(client, "seat", 20)
        asleep = "SELECT COUNT(*) FROM information_schema.processlist WHERE state='User sleep'"
        assert server.ask(asleep)[0][0] <= 1
        await lease.release()
        for waiter in waiters:
            await waiter.result(within=30)

    run(flavor, scenario)
