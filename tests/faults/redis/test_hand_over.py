"""A lock is handed to a waiter whole: what becomes of it when the waiter is not there."""

from __future__ import annotations

import time

from fencelock.worlds import clock
from tests.faults.crew import Crew
from tests.servers.redis import Redis

LATE = 30.0


def test_a_waiter_frozen_past_its_ttl_does_not_believe_the_old_message(
    flavor: str, server: Redis, crew: Crew
) -> None:
    """H22: it wakes up, finds that it was given the lock long ago, and queues again."""
    holder, frozen, other = (crew.actor(flavor, server.url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    waiting = frozen.queue("seat", 1, ttl=1)
    frozen.freeze()
    assert holder.ask("release", name="seat") is True
    taken = other.acquire("seat", ttl=60, timeout=LATE)
    frozen.thaw()
    other.wait_queued("seat", 1)
    assert not waiting.given()
    assert other.ask("release", name="seat") is True
    assert waiting.result()["fence"] > taken["fence"]


def test_a_frozen_client_costs_one_ttl_however_many_of_it_wait(
    flavor: str, server: Redis, crew: Crew
) -> None:
    """H22: its first waiter lets the lock expire, and the others of that client are passed over."""
    holder, frozen, heir = (crew.actor(flavor, server.url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    answers = [
        frozen.queue("seat", place, ttl=ttl) for place, ttl in ((1, 1), (2, 3600), (3, 3600))
    ]
    waiting = heir.queue("seat", 4, ttl=60)
    frozen.freeze()
    assert holder.ask("release", name="seat") is True
    taken = waiting.result(within=LATE)
    frozen.thaw()
    heir.wait_queued("seat", 3)  # all of them are back
    assert heir.ask("release", name="seat") is True
    give_up = clock.now() + LATE
    while not any(answer.given() for answer in answers):
        assert clock.now() < give_up, "none of them got the lock"
        time.sleep(0.005)
    assert all(a.result()["fence"] > taken["fence"] for a in answers if a.given())
