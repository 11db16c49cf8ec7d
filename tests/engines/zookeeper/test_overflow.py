"""Sequence numbers that come to their end on a real server: the order stays.

The server gives its last number again and again then. Two thousand million turns take too long, so
the counter is set in the server's own snapshot, in the record of the lock's folder, while the
server is down.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.engines.zookeeper.shares import READ, WRITE, engine_of, hold, take, wish
from tests.faults.flavors import Lab, run
from tests.servers.zookeeper import ZooKeeper

MARK = b"the folder whose counter is set"
LAST = 2**31 - 1
SEAL = 8 + 4 + 1  # of a snapshot: its checksum and a path of one letter
LATE = 30.0


def set_counter(server: ZooKeeper, count: int) -> None:
    """Let a folder believe that so many children were made in it."""
    snapshots = (server.folder / "data" / "version-2").glob("snapshot.*")
    newest = max(snapshots, key=lambda path: int(path.suffix[1:], 16))
    content = bytearray(newest.read_bytes())
    where = content.index(MARK) + len(MARK) + struct.calcsize("!qqqqqi")  # rights, zxids, times
    struct.pack_into("!i", content, where, count)
    struct.pack_into("!q", content, len(content) - SEAL, zlib.adler32(content[:-SEAL]))
    newest.write_bytes(content)


@pytest.fixture(params=["/test/seat"])
def overflowing(request: pytest.FixtureRequest) -> Any:
    with ZooKeeper(properties={"zookeeper.digest.enabled": "false"}) as server:
        client: Any = KazooClient(hosts=server.address)
        client.start()
        client.create(request.param, MARK, makepath=True)
        client.stop()
        client.close()
        server.restart()  # it writes a snapshot when it starts
        server.stop()
        set_counter(server, LAST - 2)
        server.start()
        yield server


def test_turns_are_in_order_when_the_numbers_are_spent(flavor: str, overflowing: ZooKeeper) -> None:
    """H50."""
    url = f"zookeeper://{overflowing.address}/test"
    turns: list[tuple[int, int]] = []

    async def take_turn(lab: Lab, number: int) -> None:
        client = await lab.connect(url)
        async with client.lock("seat", ttl=30, timeout=LATE) as lease:
            turns.append((number, lease.fence))

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(url)
        lease = await holder.lock("seat", ttl=30).acquire()
        jobs = []
        for number in range(6):
            jobs.append(lab.start(take_turn(lab, number)))
            await lab.until_queued(holder, "seat", number + 1)
        numbers = [path.rpartition("__")[2] for path in overflowing.nodes()]
        assert len(numbers) == 7
        assert len({*numbers}) < 7, "the server is expected to repeat its last number"
        assert turns == []
        await lease.release()
        for job in jobs:
            await job.result(within=LATE)

    run(flavor, scenario)
    assert [number for number, _ in turns] == [0, 1, 2, 3, 4, 5]
    assert turns == sorted(turns, key=lambda turn: turn[1])


@pytest.mark.parametrize("overflowing", ["/test/%rwlock/seat"], indirect=True)
def test_a_downgraded_writer_stays_before_all_who_wait_when_the_numbers_are_spent(
    flavor: str, overflowing: ZooKeeper
) -> None:
    """Then the czxids decide, and its node is younger than theirs: what counts is its fence."""
    url = f"zookeeper://{overflowing.address}/test"

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        grant = await take(client, WRITE)
        jobs = []
        for count, share in enumerate((READ, WRITE, READ), 1):
            jobs.append(lab.start(hold(rival, wish(share))))
            await lab.until_queued(client, "seat", count)
        await engine_of(client).acquire(wish(READ)._replace(owner=grant.owner))
        reader = await jobs[0].result(within=LATE)
        await engine_of(rival).release(reader)
        assert [holder.fence for holder in await client.holders("seat")] == [grant.fence]
        assert not jobs[1].done(), "somebody writes beside a reader"
        assert await engine_of(client).release(grant)
        await engine_of(rival).release(await jobs[1].result(within=LATE))
        await jobs[2].result(within=LATE)

    run(flavor, scenario)
