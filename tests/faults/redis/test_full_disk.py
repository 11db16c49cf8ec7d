"""A server that logs every change to a disk, and the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock import OutcomeUnknown, Unavailable
from tests.faults import disk
from tests.faults.flavors import SOON, Lab, run
from tests.servers.redis import Redis
from tests.servers.resp import ReplyError
from tests.servers.server import until

MEGABYTES = 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk.small_disk(tmp_path / "disk", MEGABYTES) as place:
        yield place


def refuses_changes(server: Redis) -> bool:
    try:
        server.cli("SET", "unimportant", "x" * 10_000)
    except ReplyError as error:
        return str(error).startswith("MISCONF")
    return False


def test_a_full_disk_is_said_clearly_and_leaves_no_half_state(
    flavor: str, small_disk: Path
) -> None:
    """H37, once a second: changes are refused, what was granted stays, and room makes it well."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        filler = disk.fill(small_disk)
        until(lambda: refuses_changes(server), "the server to notice that its disk is full")
        with pytest.raises(Unavailable, match=r"cannot write to its disk.*nothing happened"):
            await client.lock("other", ttl=60).acquire(timeout=0)
        with pytest.raises(Unavailable, match="cannot write to its disk"):
            await lease.renew()
        lease.check()
        filler.unlink()
        until(lambda: not refuses_changes(server), "the server to notice that there is room")
        assert server.cli("EXISTS", "other") == 0
        await lease.renew()
        (holding,) = await other.holders("seat")
        assert holding.fence == lease.fence
        assert await lease.release() is True
        async with other.lock("seat") as taken:
            assert taken.fence > lease.fence

    with Redis(small_disk / "redis", persistence="everysec") as server:
        run(flavor, scenario)


def test_a_server_that_dies_of_a_full_disk_grants_nothing(flavor: str, small_disk: Path) -> None:
    """H37, at every change: it ends in the middle of a request. No lease is handed out for it."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url, request_timeout=20)
        async with client.lock("seat", ttl=5) as lease:
            fence = lease.fence
        filler = disk.fill(small_disk)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            for number in range(1000):  # there may be room left in the last page
                held = await client.lock(f"other:{number}", ttl=5).acquire(timeout=0)
                await held.release()
        assert server.process is not None
        assert server.process.wait(SOON) != 0
        server.process = None
        filler.unlink()
        server.start()
        lease = await client.lock("seat", ttl=5).acquire(timeout=SOON)
        assert lease.fence > fence
        await lease.release()

    server = Redis(small_disk / "redis", persistence="always")
    with server:
        run(flavor, scenario)
