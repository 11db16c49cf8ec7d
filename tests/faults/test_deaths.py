"""Holders and waiters that die: the lock comes free, and those who wait keep their order."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from fencelock import AcquireTimeout
from fencelock.worlds import clock
from tests.faults.crew import Actor, Crew
from tests.faults.engines import store_of
from tests.faults.flavors import SOON, Lab, run
from tests.faults.held import What


@pytest.mark.needs("waiters")
def test_the_lock_of_a_killed_holder_comes_free_when_its_lease_ends(
    flavor: str, shared_url: str, what: What, crew: Crew
) -> None:
    """H21: SIGKILL. Whoever waits gets the lock when the lease is over, and not before."""
    beside = company(crew, flavor, shared_url, what)
    holder, waiter = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    held = holder.acquire("seat", what=what.kind, ttl=1.2)
    waiting = waiter.queue("seat", 1, what=what.rival_kind)
    last = holder.ask("status", name="seat")
    holder.kill()
    taken = waiting.result()
    assert taken["at"] >= last["valid_until"]
    assert taken["fence"] > held["fence"]
    assert taken["slot"] == held["slot"]
    assert waiter.ask("inspect", name="seat") == {"holders": 1 + len(beside), "waiters": 0}
    for actor in (*beside, waiter):
        assert actor.ask("release", name="seat") is True


def test_the_lock_of_a_killed_holder_is_free_for_a_newcomer(
    flavor: str, shared_url: str, what: What, crew: Crew
) -> None:
    """H21: nobody waited, and nobody has tidied up: the next one who asks gets it."""
    company(crew, flavor, shared_url, what)
    holder, newcomer = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    held = holder.acquire("seat", what=what.kind, ttl=0.3, renew=False)
    holder.kill()
    taken = newcomer.acquire("seat", what=what.rival_kind, timeout=None)
    assert taken["fence"] > held["fence"]
    assert taken["slot"] == held["slot"]
    assert taken["at"] >= held["valid_until"]


def company(crew: Crew, flavor: str, url: str, what: What) -> list[Actor]:
    """Those who hold the name beside what the test is about."""
    actors = [crew.actor(flavor, url) for _ in range(what.beside)]
    for actor in actors:
        actor.acquire("seat", what=what.rival_kind, ttl=60)
    return actors


@pytest.mark.needs("waiters")
def test_a_waiter_killed_while_it_is_woken_does_not_keep_the_lock(
    flavor: str, shared_url: str, what: What, crew: Crew
) -> None:
    """H22: the head of the queue is frozen, the lock is handed to it, then it is killed.

    The next one gets the lock: after the dead one's ttl at the latest, and where the head has to
    come for it, long before.
    """
    company(crew, flavor, shared_url, what)
    holder, dying, heir = (crew.actor(flavor, shared_url) for _ in range(3))
    held = holder.acquire("seat", what=what.rival_kind, ttl=60)
    dying.queue("seat", 1, what=what.kind, ttl=store_of(shared_url).dead_waiter_ttl)
    waiting = heir.queue("seat", 2, what=what.kind, ttl=60)
    dying.freeze()
    assert holder.ask("release", name="seat") is True
    dying.kill()
    assert waiting.result()["fence"] > held["fence"]
    assert heir.ask("release", name="seat") is True
    # The dead one is not waited for again, but as a reader beside the heir, until its lease ends.
    wait = SOON if what.kind == "reader" else 0
    assert holder.acquire("seat", what=what.rival_kind, timeout=wait)["held"]


def test_a_waiter_frozen_while_it_is_woken_is_passed_over_and_keeps_its_place(
    flavor: str, file_url: str, database: Path, crew: Crew
) -> None:
    """H22: the head of the queue is only slow: others go first, and it comes before newcomers."""
    holder, slow, quick, late = (crew.actor(flavor, file_url) for _ in range(4))
    holder.acquire("seat", ttl=60)
    slow_waits = slow.queue("seat", 1, ttl=60)
    quick_waits = quick.queue("seat", 2, ttl=60)
    slow.freeze()
    assert holder.ask("release", name="seat") is True
    second = quick_waits.result()["fence"]
    late_waits = late.queue("seat", 2, ttl=60)
    slow.thaw()
    wait_until_all_have_looked_again(database)
    assert quick.ask("release", name="seat") is True
    third = slow_waits.result()["fence"]
    assert not late_waits.given()
    assert slow.ask("release", name="seat") is True
    assert second < third < late_waits.result()["fence"]


def wait_until_all_have_looked_again(database: Path) -> None:
    """Wait until nobody in the queue is passed over any more."""
    connection = sqlite3.connect(database)
    give_up = clock.now() + SOON
    while connection.execute("SELECT 1 FROM waiters WHERE lapsed").fetchone():
        assert clock.now() < give_up, "a waiter has not looked again"
        time.sleep(0.005)
    connection.close()


@pytest.mark.needs("waiters")
@pytest.mark.parametrize("death", ["killed", "frozen"])
def test_a_waiter_gets_a_lock_that_nobody_releases(
    flavor: str, shared_url: str, crew: Crew, death: str
) -> None:
    """H23: the holder is gone or stands still: there is no push, and no waiter oversleeps."""
    holder, waiter = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    holder.acquire("seat", ttl=0.8)
    waiting = waiter.queue("seat", 1, ttl=60)
    if death == "killed":
        holder.kill()
    else:
        holder.freeze()
    assert waiting.result()["held"]
    if death == "frozen":
        holder.thaw()
        holder.hear(event="lost", name="seat")
        assert waiter.ask("status", name="seat")["held"]


def test_a_waiter_gets_a_lock_whose_lease_just_ends(flavor: str, url: str) -> None:
    """H23: the same within one process: the holder neither renews nor releases."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        holder = await client.lock("seat", ttl=0.3, renew=False).acquire()
        ends_at = clock.now() + holder.remaining()
        lease = await other.lock("seat").acquire(timeout=10)
        assert clock.now() >= ends_at
        assert holder.lost.is_set()
        assert lease.fence > holder.fence
        await lease.release()

    run(flavor, scenario)


@pytest.mark.needs("order", "waiters")
@pytest.mark.parametrize("dead", [0, 1, 4])
def test_the_order_of_the_queue_survives_the_death_of_one_waiter(
    flavor: str, shared_url: str, crew: Crew, dead: int
) -> None:
    """H30: the first, the second or the last of five waiters is killed."""
    holder = crew.actor(flavor, shared_url)
    holder.acquire("seat", ttl=60)
    waiters: list[Actor] = [crew.actor(flavor, shared_url) for _ in range(5)]
    answers = [
        waiter.queue("seat", n + 1, ttl=store_of(shared_url).dead_waiter_ttl if n == dead else 60)
        for n, waiter in enumerate(waiters)
    ]
    waiters[dead].kill()
    assert holder.ask("release", name="seat") is True
    fences = []
    for number in [n for n in range(5) if n != dead]:
        fences.append(answers[number].result()["fence"])
        assert waiters[number].ask("release", name="seat") is True
    assert fences == sorted(set(fences))
    last = holder.acquire("seat", ttl=60, timeout=store_of(shared_url).dead_waiter_wait)
    assert last["fence"] > fences[-1]  # the dead one is not next


def test_a_waiter_that_timed_out_has_left_the_queue(flavor: str, url: str) -> None:
    """H31: its place is gone, and the lock is not handed to somebody who has left."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        holder = await client.lock("seat").acquire()
        with pytest.raises(AcquireTimeout):
            await other.lock("seat").acquire(timeout=0.05)
        assert await other.lock("seat").try_acquire(timeout=0.05) is None
        assert (await client.inspect("seat")).waiters == ()
        assert await holder.release() is True
        assert (await client.inspect("seat")).holders == ()
        lease = await client.lock("seat").acquire(timeout=0)
        await lease.release()

    run(flavor, scenario)


@pytest.mark.needs("waiters")
def test_a_waiter_of_another_process_that_timed_out_has_left_the_queue(
    flavor: str, shared_url: str, crew: Crew
) -> None:
    """H31: the same between processes, with another waiter behind it."""
    holder, brief, patient = (crew.actor(flavor, shared_url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    leaving = brief.begin("acquire", name="seat", timeout=4)
    brief.wait_queued("seat", 1)
    staying = patient.queue("seat", 2)
    with pytest.raises(Exception, match="AcquireTimeout"):
        leaving.result()
    assert holder.ask("inspect", name="seat") == {"holders": 1, "waiters": 1}
    assert holder.ask("release", name="seat") is True
    assert staying.result()["held"]
