"""The fixture ``faults``: what can go wrong, at a word, in both flavors."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Literal

import pytest

import fencelock
from fencelock import testing
from fencelock.testing import Faults
from fencelock.world import GRACE_S

ROOT = Path(__file__).parents[2]

# What a user writes; the fixture comes with the package.
THEIRS = """
import asyncio
import fencelock
import pytest

def test_a_frozen_holder_stops(faults):
    client, steps = faults.client(), []
    with pytest.raises(fencelock.LeaseLost):
        with client.lock("report", ttl=30) as lease:
            faults.pause_holder()
            lease.check()
            steps.append("never")
    assert steps == []

def test_the_same_in_asyncio(faults):
    async def main():
        async with faults.aio.client() as client:
            async with client.lock("report", ttl=30):
                await faults.aio.pause_holder()
                await asyncio.sleep(60)
    with pytest.raises(fencelock.LeaseLost):
        asyncio.run(main())

def test_each_test_begins_in_peace(faults):
    assert faults.client().lock("report").acquire(timeout=0).release()
"""


def test_the_fixture_is_there_wherever_the_package_is(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"fencelock": "fencelock.testing.plugin"}
    (tmp_path / "test_theirs.py").write_text(THEIRS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, "test_theirs.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout


def test_the_plugin_loads_nothing_that_a_test_did_not_ask_for() -> None:
    code = "import pytest, sys, fencelock.testing.plugin; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in ran.stdout.split() if name.startswith("fencelock")}
    allowed = {"", ".errors", ".model", ".testing", ".testing.plugin"}
    assert loaded == {f"fencelock{part}" for part in allowed}


def test_a_paused_holder_loses_its_lease_and_a_rival_gets_the_lock(faults: Faults) -> None:
    holder, rival = faults.client(), faults.client()
    lease = holder.lock("seat", ttl=30).acquire()
    got: list[int] = []

    def wait() -> None:
        with rival.lock("seat", ttl=5, timeout=600) as later:
            got.append(later.fence)

    faults.clock._timeline.flows = False  # the rival waits for the pause, not for the clock
    waiter = threading.Thread(target=wait)
    waiter.start()
    faults.clock.until(lambda: len(holder.inspect("seat").waiters) == 1)
    faults.pause_holder()
    waiter.join(10)
    assert not lease
    assert got == [lease.fence + 1]
    assert lease.release() is False


def test_a_pause_that_is_short_enough_costs_nothing(faults: Faults) -> None:
    lease = faults.client().lock("seat", ttl=30).acquire()
    faults.pause_holder(seconds=20)
    assert lease
    lease.release()
    with pytest.raises(fencelock.UsageError, match="nobody holds a lock"):
        faults.pause_holder()


def test_one_lease_expires_and_the_others_go_on(faults: Faults) -> None:
    client = faults.client()
    told: list[fencelock.LeaseLost] = []
    one = client.lock("one", on_lost=told.append).acquire()
    other = client.lock("other").acquire()
    faults.expire(one)
    assert [type(loss) for loss in told] == [fencelock.Expired]
    assert (bool(one), bool(other)) == (False, True)
    other.release()


def test_a_lease_of_any_client_can_expire(tmp_path: Path) -> None:
    with fencelock.connect(f"sqlite:///{tmp_path}/locks.db") as client:
        lease = client.lock("seat").acquire()
        Faults().expire(lease)
        assert isinstance(lease.reason, str)
        assert client.holders("seat") == []


def test_an_acquire_whose_reply_is_lost_is_granted_once(faults: Faults) -> None:
    client = faults.client()
    faults.lose_reply("acquire")
    with client.lock("seat", ttl=30) as lease:
        assert lease.fence == 1
        assert len(client.holders("seat")) == 1
    assert [call.outcome for call in faults.switches.seen("acquire")] == ["lost", "answered"]


def test_a_release_whose_reply_is_lost_is_a_release(faults: Faults) -> None:
    client = faults.client()
    lease = client.lock("seat", ttl=30).acquire()
    faults.lose_reply("release", count=2)
    assert lease.release() is True
    assert client.holders("seat") == []


def test_a_partition_shorter_than_the_ttl_costs_nothing_and_a_longer_one_the_lease(
    faults: Faults,
) -> None:
    client = faults.client()
    lease = client.lock("seat", ttl=30).acquire()
    with faults.partition():
        with pytest.raises(fencelock.Unavailable):
            client.lock("other").try_acquire()
        faults.clock.run(20)
    faults.clock.run(60)
    assert lease
    faults.partition()
    faults.clock.run(31)
    faults.heal()
    assert "could not be renewed" in str(lease.reason)


def test_a_jump_of_the_clock_ends_what_it_skips(faults: Faults) -> None:
    client = faults.client()
    short, long = client.lock("a", ttl=5).acquire(), client.lock("b", ttl=600).acquire()
    faults.jump_clock(60)
    assert (bool(short), bool(long)) == (False, True)
    long.release()


def test_time_passes_for_a_call_that_waits(faults: Faults) -> None:
    holder, waiter = faults.client(), faults.client()
    lease = holder.lock("seat", ttl=30).acquire()
    begun = faults.clock.now()
    with pytest.raises(fencelock.AcquireTimeout):
        waiter.lock("seat", timeout=600).acquire()
    assert faults.clock.now() == pytest.approx(begun + 600)
    assert lease, "the holder was renewed meanwhile"
    with pytest.raises(RuntimeError, match="give it a timeout"):
        waiter.lock("seat").acquire()
    lease.release()


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_call_that_hangs_is_unknown_within_a_second_of_its_timeout(
    faults: Faults, where: Literal["before", "after"]
) -> None:
    client, rival = faults.client(), faults.client()
    client.open()
    faults.switches.hang("acquire", "withdraw", where=where)
    begun = faults.clock.now()
    with pytest.raises(fencelock.OutcomeUnknown):
        client.lock("seat", timeout=5).acquire()
    assert faults.clock.now() == pytest.approx(begun + 5 + GRACE_S)
    assert [owed.name for owed in client.owed] == ["seat"]
    faults.heal()
    faults.clock.run(10)
    assert client.owed == ()
    with rival.lock("seat", timeout=0):
        pass


def test_an_engine_that_is_not_reached_in_time_was_asked_for_nothing(faults: Faults) -> None:
    client = faults.client()
    faults.switches.hang("open")
    with pytest.raises(fencelock.Unavailable, match="nothing was asked for"):
        client.lock("seat", timeout=5).acquire()
    assert client.owed == ()
    assert not faults.switches.seen("acquire")


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_call_that_hangs_is_unknown_in_asyncio_too(
    faults: Faults, where: Literal["before", "after"]
) -> None:
    async def main() -> None:
        at = faults.aio
        async with at.client() as client, at.client() as rival:
            at.switches.hang("acquire", "withdraw", where=where)
            begun = at.clock.now()
            with pytest.raises(fencelock.OutcomeUnknown):
                await client.lock("seat", timeout=5).acquire()
            assert at.clock.now() == pytest.approx(begun + 5 + GRACE_S)
            assert [owed.name for owed in client.owed] == ["seat"]
            at.heal()
            await at.clock.run(10)
            assert client.owed == ()
            async with rival.lock("seat", timeout=0):
                pass

    asyncio.run(main())


def test_all_of_it_in_asyncio(faults: Faults) -> None:
    async def main() -> None:
        at = faults.aio
        async with at.client() as client, at.client() as rival:
            at.lose_reply()
            async with client.lock("seat", ttl=30) as lease:
                assert lease.fence == 1
            with pytest.raises(fencelock.Expired):
                async with client.lock("seat", ttl=30):
                    await at.pause_holder()
                    await asyncio.sleep(60)
            lease = await client.lock("seat", ttl=30).acquire()
            waits = [rival.lock("seat").try_acquire(timeout=t) for t in (3, 9)]
            assert await asyncio.gather(*waits) == [None, None]
            assert lease
            with at.partition():
                await at.clock.run(31)
            assert not lease
            lease = await client.lock("seat", ttl=30).acquire()
            await at.expire(lease)
            assert not lease
            lease = await client.lock("seat", ttl=30).acquire()
            await at.jump_clock(31)
            assert not lease
            assert at.clock is at.clock

    asyncio.run(main())


def test_an_outside_user_finds_it_where_the_other_tools_are() -> None:
    assert testing.Faults is Faults
