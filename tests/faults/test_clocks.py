"""Clocks that step, stand still and differ: the boot clock times leases, fences only grow."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fencelock.worlds import clock
from tests.faults.crew import Actor, Crew, Refused
from tests.faults.flavors import SOON, Lab, run
from tests.servers.clock import Clock

HOUR = 3600.0


@pytest.fixture
def clocks(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


def wait_for_renewal(actor: Actor, name: str) -> None:
    """Wait until the lease has been renewed once more."""
    before = actor.ask("status", name=name)
    give_up = clock.now() + SOON
    while clock.now() < give_up:
        status = actor.ask("status", name=name)
        assert status["held"], status["reason"]
        if status["renewals"] > before["renewals"]:
            return
    raise AssertionError("the lease was not renewed")


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_of_the_wall_clock_loses_no_lease(
    flavor: str, shared_url: str, crew: Crew, clocks: Clock, step: float
) -> None:
    """H26: an hour forward or back: the holder holds on, others are kept out, fences grow."""
    holder = crew.actor(flavor, shared_url, environment=clocks.environment)
    other = crew.actor(flavor, shared_url, environment=clocks.environment)
    held = holder.acquire("seat", ttl=0.9)
    before = holder.ask("clocks")
    clocks.set(wall=step)
    after = holder.ask("clocks")
    assert abs(after["wall"] - before["wall"] - step) < 60, "the shim does not work"
    wait_for_renewal(holder, "seat")
    with pytest.raises(Refused, match="AcquireTimeout"):
        other.acquire("seat")
    assert not holder.has_said(event="lost")
    fences = [held["fence"]]
    assert holder.ask("release", name="seat") is True
    for offset in (-step, step, 0.0):
        fences.append(other.acquire("seat")["fence"])
        assert other.ask("release", name="seat") is True
        clocks.set(wall=offset)
        fences.append(holder.acquire("seat")["fence"])
        assert holder.ask("release", name="seat") is True
    assert fences == sorted(set(fences))


def test_a_step_of_the_wall_clock_does_not_free_an_abandoned_lock_early(
    flavor: str, shared_url: str, crew: Crew, clocks: Clock
) -> None:
    """H26: nobody renews; the wall clock of whoever looks is an hour ahead, and the lease holds."""
    holder = crew.actor(flavor, shared_url)
    other = crew.actor(flavor, shared_url, environment=clocks.environment)
    held = holder.acquire("seat", ttl=0.8, renew=False)
    holder.kill()
    clocks.set(wall=HOUR)
    taken = other.acquire("seat", timeout=None)
    assert taken["at"] >= held["valid_until"]
    assert taken["fence"] > held["fence"]


def test_fences_grow_although_the_wall_clock_goes_back(
    flavor: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H26: on every engine that serves one process, with the wall clock in our hands."""
    wall = [2_000_000_000_000_000]
    monkeypatch.setattr(clock, "wall_us", lambda: wall[0])

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        fences = []
        for step in (0, 3_600_000_000, -7_200_000_000, -(10**15), 1):
            wall[0] += step
            for _ in range(2):
                async with client.lock("seat") as lease:
                    fences.append(lease.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_a_suspended_machine_has_lost_the_leases_that_ended_meanwhile(
    flavor: str, file_url: str, crew: Crew, clocks: Clock
) -> None:
    """H27: while suspended, the boot clock runs and the monotonic one does not."""
    actor = crew.actor(flavor, file_url, environment=clocks.environment)
    actor.acquire("short", ttl=30)
    actor.acquire("long", ttl=600)
    clocks.set(boot=60.0, wall=60.0)
    with pytest.raises(Refused, match=r"^Expired: "):
        actor.ask("check", name="short")
    actor.hear(event="lost", name="short")
    actor.ask("check", name="long")
    again = actor.acquire("short", ttl=30)
    assert again["held"]


def test_a_monotonic_clock_that_jumps_changes_nothing(
    flavor: str, file_url: str, crew: Crew, clocks: Clock
) -> None:
    """H27: the deadline is judged by CLOCK_BOOTTIME alone."""
    actor = crew.actor(flavor, file_url, environment=clocks.environment)
    actor.acquire("seat", ttl=30)
    clocks.set(monotonic=1000.0)
    actor.ask("check", name="seat")
    status = actor.ask("status", name="seat")
    assert status["held"]
    assert status["valid_until"] - status["at"] > 20


def needs_time_namespaces() -> list[str]:
    """The command that runs another in a time namespace an hour ahead, or skip."""
    wrapper = ["unshare", "--time", "--boottime", "3600", "--monotonic", "3600", "--fork"]
    if shutil.which("unshare") is None:
        pytest.skip("time namespaces need unshare (util-linux)")
    probe = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"time namespaces are not permitted here (root?): {probe.stderr.strip()}")
    return wrapper


def test_a_process_in_another_time_namespace_shares_the_locks(
    flavor: str, file_url: str, crew: Crew
) -> None:
    """H27: a container whose boot clock is an hour ahead neither steals nor is locked out."""
    wrapper = needs_time_namespaces()
    inside = crew.actor(flavor, file_url, wrapper=wrapper)
    outside = crew.actor(flavor, file_url)
    held = outside.acquire("seat", ttl=0.9)
    with pytest.raises(Refused, match="AcquireTimeout"):
        inside.acquire("seat")
    wait_for_renewal(outside, "seat")
    outside.freeze()
    taken = inside.acquire("seat", ttl=0.9, timeout=None)
    assert taken["fence"] > held["fence"]
    outside.thaw()
    outside.hear(event="lost", name="seat")
    with pytest.raises(Refused, match="AcquireTimeout"):
        outside.acquire("seat")
    wait_for_renewal(inside, "seat")
    inside.kill()
    assert outside.acquire("seat", timeout=None)["fence"] > taken["fence"]


def test_a_waiter_in_another_time_namespace_is_served_in_turn(
    flavor: str, file_url: str, crew: Crew
) -> None:
    """H27: the queue and its pushes work across, in both directions."""
    wrapper = needs_time_namespaces()
    inside = crew.actor(flavor, file_url, wrapper=wrapper)
    outside = crew.actor(flavor, file_url)
    outside.acquire("seat", ttl=60)
    waiting = inside.queue("seat", 1, ttl=60)
    assert outside.ask("release", name="seat") is True
    assert waiting.result()["held"]
    back = outside.queue("seat", 1, ttl=60)
    assert inside.ask("release", name="seat") is True
    assert back.result()["held"]


def test_the_offset_of_a_time_namespace_is_read() -> None:
    """H27: what the kernel writes, and what it might write."""
    text = "monotonic           0         0\nboottime         3600   5000000\n"
    assert clock.namespace_offset(text) == pytest.approx(3600.005)
    assert clock.namespace_offset("monotonic 0 0\nboottime -10 0\n") == -10
    assert clock.namespace_offset("") == 0.0
