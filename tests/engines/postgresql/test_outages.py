"""Servers that are restarted, frozen, replaced by their standby, or out of room."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fencelock import EngineError, LeaseLost, OutcomeUnknown, Unavailable
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql, Standby
from tests.servers.server import until

MODES = ["lease", "advisory", "row"]

_BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
QUEUED = {
    "lease": "SELECT count(*) FROM fencelock_waiters",
    "advisory": _BLOCKED,
    "row": _BLOCKED,
}


@pytest.fixture
def pair() -> Iterator[tuple[Postgresql, Standby]]:
    """A primary and a standby that follows it."""
    with Postgresql(settings={"wal_level": "replica"}) as primary:
        with Standby(primary) as standby:
            yield primary, standby


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_grant_survives_the_server(end: str, flavor: str, own_server: Postgresql) -> None:
    """H35: a leased row is on disk before it is answered; the holder does not even notice."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url())
        lease = await client.lock("seat", ttl=30).acquire()
        if end == "restart":
            own_server.restart()
        else:
            own_server.kill()
            own_server.start()
        rival = await lab.connect(own_server.url())
        assert await rival.lock("seat").try_acquire() is None
        await lease.renew()
        lease.check()
        assert await lease.release() is True
        async with rival.lock("seat", timeout=SOON) as after:
            assert after.fence > lease.fence

    run(flavor, scenario)


@pytest.mark.parametrize("mode", ["advisory", "row"])
@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_session_does_not_survive_the_server(
    end: str, mode: str, flavor: str, own_server: Postgresql
) -> None:
    """H61, H64: the holder is told, and the next fence is higher."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url(f"mode={mode}"))
        lease = await client.lock("seat", ttl=1.5).acquire()
        if end == "restart":
            own_server.restart()
        else:
            own_server.kill()
            own_server.start()
        await lab.until(lambda: lease.lost.is_set(), "the holder to be told")
        with pytest.raises(LeaseLost):
            lease.check()
        async with client.lock("seat", timeout=SOON) as after:
            assert after.fence > lease.fence

    run(flavor, scenario)


@pytest.mark.parametrize("mode", MODES)
def test_a_waiter_survives_a_restart(mode: str, flavor: str, own_server: Postgresql) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url(f"mode={mode}"))
        rival = await lab.connect(own_server.url(f"mode={mode}"))
        lease = await client.lock("seat", ttl=5).acquire()
        waiter = lab.start(rival.lock("seat", ttl=30, timeout=60).acquire())
        await lab.until(lambda: own_server.psql(QUEUED[mode]) == "1", "the waiter to queue")
        own_server.restart()
        try:
            await lease.release()
        except (EngineError, OutcomeUnknown):
            pass  # its ttl ends soon
        other = await waiter.result(60)
        assert other.fence > lease.fence
        await other.release()

    run(flavor, scenario)


@pytest.mark.parametrize("mode", MODES)
def test_a_frozen_server_is_noticed_by_the_holders_own_clock(
    mode: str, flavor: str, own_server: Postgresql
) -> None:
    """H39: it does not answer, and no connection breaks; every call still ends."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url(f"mode={mode}&request_timeout=2"))
        lease = await client.lock("seat", ttl=1.0).acquire()
        own_server.pause()
        try:
            await lab.until(lambda: lease.lost.is_set(), "the holder to know")
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.lock("other", ttl=1.0).try_acquire()
        finally:
            own_server.resume()
        async with client.lock("seat", ttl=30, timeout=SOON) as after:
            assert after.fence > lease.fence
        with pytest.raises((LeaseLost, EngineError)):
            lease.check()

    run(flavor, scenario)


@pytest.mark.parametrize("mode", MODES)
def test_fences_grow_over_a_failover(
    mode: str, flavor: str, pair: tuple[Postgresql, Standby]
) -> None:
    """H64, H38: the standby had not even seen the last grants."""
    primary, standby = pair

    async def scenario(lab: Lab) -> None:
        hosts = f"{primary.address},{standby.address}"
        url = f"postgresql://{USER}@{hosts}/postgres?mode={mode}"
        client = await lab.connect(url)
        await (await client.lock("seat").acquire()).release()
        standby.follows()
        os.kill(_receiver(standby), signal.SIGSTOP)  # it follows no more, and nobody knows
        for _ in range(100):
            lease = await client.lock("seat", ttl=2).acquire()
            await lease.release()
        lease = await client.lock("seat", ttl=2, renew=False).acquire()
        primary.kill()
        os.kill(_receiver(standby), signal.SIGCONT)
        standby.promote()
        async with client.lock("seat", ttl=30, timeout=30) as after:
            assert after.fence > lease.fence
        await lab.until(lambda: lease.lost.is_set(), "the holder to know")

    run(flavor, scenario)


def _receiver(standby: Postgresql) -> int:
    """The process that receives the primary's changes."""

    def find() -> list[int]:
        return [pid for pid in standby.backends() if b"walreceiver" in _command(pid)]

    until(find, "the standby to follow")
    return find()[0]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of its own, with little room."""
    if os.getuid() != 0:
        pytest.skip("a disk of its own can be mounted by root only")
    room = Path(tempfile.mkdtemp(prefix="fencelock-disk-"))
    room.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", str(room)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        room.rmdir()
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield room
    subprocess.run(["umount", "-l", str(room)], check=True)
    room.rmdir()


FILL = "INSERT INTO filler SELECT repeat(md5(g::text), 30) FROM generate_series(1, 4000) g"


def fill(server: Postgresql) -> None:
    """Write until there is no room."""
    server.psql("CREATE TABLE filler (t text)")
    for _ in range(200):
        try:
            server.psql(FILL)
        except AssertionError:
            return


def test_a_full_disk_is_a_clear_error(flavor: str, small_disk: Path) -> None:
    """H74: what cannot be written is not granted."""
    settings = {"max_wal_size": "32MB", "min_wal_size": "32MB"}
    with Postgresql(small_disk / "server", settings=settings) as server:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url())
            held = await client.lock("held", ttl=60).acquire()
            fill(server)
            meta, leases = {"filler": "x" * 2000}, [held]
            with pytest.raises((Unavailable, OutcomeUnknown)):
                for number in range(100_000):
                    lock = client.lock(f"seat:{number}", ttl=60, meta=meta)
                    leases.append(await lock.acquire())
            held.check()
            for lease in leases:
                with suppress(EngineError, OutcomeUnknown):  # that cannot be written, either
                    await lease.release()

        run(flavor, scenario)
