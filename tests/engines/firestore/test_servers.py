"""An emulator that stands still or dies, clients that race, and waiters that leave."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock import OutcomeUnknown, Unavailable, aio
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.firestore import Firestore
from tests.servers.server import until

TTL_S = 60.0
TURNS = 520  # of each of two processes, in two threads each: over a thousand in all

RACER = """
import sys, threading, fencelock
url, folder, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = fencelock.connect(url)
def race():
    for _ in range(turns // 2):
        with client.lock("seat", ttl=60, timeout=300) as lease:
            with open(folder + "/inside", "x"):  # fails if another is inside
                pass
            with open(folder + "/fences", "a") as fences:
                fences.write(f"{lease.fence}\\n")
            import os
            os.unlink(folder + "/inside")
threads = [threading.Thread(target=race) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
client.close()
"""


def test_of_two_processes_that_race_one_is_inside_and_its_fence_is_the_highest(
    locks_url: str, tmp_path: Path
) -> None:
    """H01: over many turns, through the listener and through their looks."""
    command = [sys.executable, "-c", RACER, locks_url, str(tmp_path), str(TURNS)]
    racers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    said = [racer.communicate(timeout=280)[1] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], said
    fences = [int(fence) for fence in (tmp_path / "fences").read_text().split()]
    assert len(fences) == 2 * TURNS
    assert fences == sorted(set(fences))


def test_a_frozen_server_is_told_and_the_lease_outlasts_it(
    flavor: str, own_server: Firestore
) -> None:
    """H39, H81: no call outlasts its time, and what stood still for less than a ttl costs none."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url_of("locks"), request_timeout=1.0)
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        own_server.pause()
        with pytest.raises(Unavailable):
            await client.holders("seat")
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await client.lock("other", ttl=TTL_S).try_acquire()
        lease.check()
        own_server.resume()
        make_due(lease)
        await lab.until_renewed(lease)
        assert await lease.release()
        assert await (await client.lock("other", ttl=TTL_S, timeout=SOON).acquire()).release()

    run(flavor, scenario)


def test_a_killed_server_is_told_and_a_new_one_serves_whoever_waits(own_server: Firestore) -> None:
    """The emulator keeps nothing: whoever waits for what it has lost gets it."""
    with fencelock.connect(own_server.url_of("locks"), request_timeout=2.0) as client:
        lost = client.lock("seat", ttl=TTL_S).acquire()
        got = list[int]()

        def wait() -> None:
            with client.lock("seat", ttl=TTL_S, timeout=120).acquire() as lease:
                got.append(lease.fence)

        waiter = threading.Thread(target=wait)
        waiter.start()
        listener = client._core.engine._listener  # type: ignore[attr-defined]
        until(lambda: listener.tells("lock:seat"), "it to wait")
        own_server.kill()
        with pytest.raises(Unavailable, match=r"cannot be reached|did not answer"):
            client.holders("seat")
        own_server.start()
        waiter.join(120)
        assert got > [lost.fence]
        assert not lost.release()


def test_a_release_wakes_a_waiter_through_the_listener(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiters hardly look by themselves here, and still each has its turn."""
    monkeypatch.setattr("fencelock.engines.firestore.engine.LOOK_TOLD_S", 1000.0)

    async def scenario(lab: Lab) -> None:
        holder, rival = await lab.connect(locks_url), await lab.connect(locks_url)
        lease = await holder.lock("seat", ttl=1000.0).acquire()
        listener = rival._core.engine._listener  # type: ignore[attr-defined]

        async def wait_and_release() -> None:
            assert await (await rival.lock("seat", ttl=1000.0, timeout=300).acquire()).release()

        waiting = [lab.start(wait_and_release()) for _ in range(3)]
        await lab.until(lambda: listener.tells("lock:seat"), "the listener to tell")
        await lab.until(lambda: len(listener._targets["lock:seat"].signals) == 3, "all to wait")
        await lab.let_pass(1.0)  # for each to have looked once more
        assert await lease.release()
        for one in waiting:
            await one.result()
        assert not listener._targets

    run(flavor, scenario)


def test_waiters_that_are_cancelled_leave_nothing(
    locks_url: str, server: Firestore, collection: str
) -> None:
    """H31: neither a target of the listener nor a document, and the next one has its turn."""

    async def scenario() -> None:
        async with aio.connect(locks_url) as holder, aio.connect(locks_url) as client:
            lease = await holder.lock("seat", ttl=TTL_S).acquire()
            listener = client._core.engine._listener  # type: ignore[attr-defined]
            jobs = [asyncio.create_task(client.lock("seat", ttl=TTL_S).acquire()) for _ in range(5)]
            for job in jobs:
                await asyncio.sleep(0.05)
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            assert not listener._targets
            last = asyncio.create_task(client.lock("seat", ttl=TTL_S, timeout=SOON).acquire())
            assert await lease.release()
            assert await (await last).release()
            assert not server.documents(collection)

    asyncio.run(scenario())


def test_the_next_waiter_looks_when_the_one_that_was_woken_leaves(locks_url: str) -> None:
    """A push goes to one waiter, which may time out at that moment."""
    with fencelock.connect(locks_url) as client:
        client.lock("another", ttl=TTL_S).acquire().release()  # it is connected
        listener = client._core.engine._listener  # type: ignore[attr-defined]
        first, second = client._core.world.signal(), client._core.world.signal()
        listener.watch("lock:seat", "one", first)
        listener.watch("lock:seat", "two", second)
        until(first.is_set, "the first to be told that nobody holds it")
        assert not second.is_set()
        listener.unwatch("lock:seat", "one")
        assert second.is_set()
        listener.unwatch("lock:seat", "two")
