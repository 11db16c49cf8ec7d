"""How many requests a lock costs, and how many round trips, as a proxy counts them."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import aio
from tests.engines.zookeeper.contenders import record_requests
from tests.faults.flavors import SOON, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.server import until
from tests.servers.zookeeper import ZooKeeper

LATE = 40.0


def through(proxy: Proxy, url: str) -> str:
    return f"zookeeper://{proxy.address}/{url.rpartition('/')[2]}"


async def take_turns(client: aio.Client, turns: int) -> None:
    for _ in range(turns):
        async with client.lock("seat", ttl=30, timeout=LATE):
            pass


def test_a_free_lock_costs_two_requests_in_one_round_trip_and_one_to_leave(
    flavor: str, server: ZooKeeper, proxy: Proxy
) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(proxy, url))
        lock = client.lock("seat")
        await (await lock.acquire()).release()
        sent = record_requests(client)
        while True:
            sent.clear()
            proxy.count_from_now()
            lease = await lock.acquire()
            if "_CreateContainer" not in sent:
                break
            await lease.release()  # the server had removed the empty folder
        assert sent == ["Create2", "GetChildren"]
        assert proxy.requests == 1
        await lease.release()
        assert sent == ["Create2", "GetChildren", "Delete"]
        assert proxy.requests == 2

    run(flavor, scenario)


@pytest.mark.parametrize("count", [2, 5])
def test_a_contended_turn_costs_few_requests(flavor: str, count: int, server: ZooKeeper) -> None:
    """Create and list, watch the one before, list again, delete."""
    url, turns = server.fresh_url(), 10

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(url) for _ in range(count)]
        gate = await clients[0].lock("seat", ttl=30).acquire()
        observer = await lab.connect(url)
        sent = [record_requests(client) for client in clients]
        jobs = [lab.start(take_turns(client, turns)) for client in clients]
        await lab.until_queued(observer, "seat", count)
        await gate.release()
        for job in jobs:
            await job.result(within=LATE)
        total = sum(map(len, sent))
        assert total <= 5 * turns * count + 2 * count, (total, " ".join(sent[0]))

    run(flavor, scenario)


def test_idle_waiters_ask_for_nothing(flavor: str, server: ZooKeeper) -> None:
    url, count = server.fresh_url(), 50

    async def scenario(lab: Lab) -> None:
        client, holder = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat", ttl=30).acquire()
        jobs = [lab.start(take_turns(client, 1)) for _ in range(count)]
        await lab.until_queued(holder, "seat", count)
        connection = client._core.engine._connection  # type: ignore[attr-defined]
        await lab.until(lambda: len(connection._session._watches) == count, "all of them watch")
        sent = record_requests(client)
        await lab.let_pass(1.5)
        assert sent == []
        await lease.release()
        for job in jobs:
            await job.result(within=LATE)

    run(flavor, scenario)


def test_many_leases_are_renewed_by_one_request(flavor: str, server: ZooKeeper) -> None:
    url, count = server.fresh_url(), 250

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=60.0)
        leases = [await client.lock(f"seat:{number}").acquire() for number in range(count)]
        engine: Any = client._core.engine
        grants = [lease._hold.grant for lease in leases]
        sent = record_requests(client)
        answers = await engine.renew(grants)
        assert sent == ["Transaction"]
        assert [answer.fence for answer in answers] == [lease.fence for lease in leases]
        await leases[7].release()
        sent.clear()
        answers = await engine.renew(grants)
        assert [type(answer).__name__ for answer in answers].count("Gone") == 1
        assert type(answers[7]).__name__ == "Gone"
        for lease in leases:
            await lease.release()

    run(flavor, scenario)


def test_the_longest_names_and_words_fit_into_what_a_server_takes(
    flavor: str, server: ZooKeeper
) -> None:
    """A request of more than a megabyte would cost the connection, again and again."""
    url, count = server.fresh_url(), 200

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=60.0)
        name, words = "\N{EURO SIGN}" * 168, {"about": "x" * 3_900}
        leases = [
            await client.lock(f"{name}{number}", meta=words).acquire() for number in range(count)
        ]
        engine: Any = client._core.engine
        grants = [lease._hold.grant._replace(ttl=20.0) for lease in leases]
        answers = await engine.renew(grants)
        assert [(answer.fence, answer.ttl) for answer in answers] == [
            (lease.fence, 20.0) for lease in leases
        ]
        for lease in leases:
            await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("count", [1, 20])
def test_one_session_carries_all_locks_of_a_client(
    flavor: str, count: int, own_server: ZooKeeper
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.fresh_url())
        leases = [await client.lock(f"seat:{number}").acquire() for number in range(count)]
        assert len(own_server.nodes()) == count
        assert own_server.facts()["zk_global_sessions"] == "1"
        for lease in leases:
            await lease.release()

    run(flavor, scenario)
    until(lambda: not own_server.nodes(), "all nodes to be gone", within=SOON)
