"""Events say what they are about: a lock, a slot, a reader, a writer or a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import fencelock
from fencelock import aio, observe, testing
from fencelock.observe import Event


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = observe.subscribe(seen.append)
    yield seen
    unsubscribe()


def told(events: list[Event]) -> list[tuple[str, str, int | None, bool]]:
    return [(event.kind, event.role, event.slot, event.election) for event in events]


def test_an_event_of_before_reads_as_one_of_a_lock() -> None:
    """Who makes events by position, or reads their first five fields, goes on doing so."""
    event = Event("acquired", "seat", 7, "", 0.5)
    assert event[:5] == ("acquired", "seat", 7, "", 0.5)
    assert (event.role, event.slot, event.election) == ("lock", None, False)


def test_blocking_events_tell_roles_and_slots(events: list[Event]) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock("seat"):
            pass
        with client.semaphore("seat", limit=2), client.semaphore("seat", limit=2):
            pass
        with client.rwlock("seat").write() as writer:
            writer.downgrade()
        with client.election("seat"):
            pass
    assert told(events) == [
        ("acquired", "lock", None, False),
        ("released", "lock", None, False),
        ("acquired", "semaphore", 0, False),
        ("acquired", "semaphore", 1, False),
        ("released", "semaphore", 1, False),
        ("released", "semaphore", 0, False),
        ("acquired", "write", None, False),
        ("released", "read", None, False),
        ("acquired", "lock", None, True),
        ("released", "lock", None, True),
    ]


def test_asyncio_events_tell_the_same(events: list[Event]) -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            async with client.semaphore("seat", limit=1), client.rwlock("seat").read():
                pass
            async with client.election("seat"):
                pass

    asyncio.run(main())
    assert told(events) == [
        ("acquired", "semaphore", 0, False),
        ("acquired", "read", None, False),
        ("released", "read", None, False),
        ("released", "semaphore", 0, False),
        ("acquired", "lock", None, True),
        ("released", "lock", None, True),
    ]


def test_a_loss_tells_what_was_lost_and_after_how_long(events: list[Event]) -> None:
    client, clock = testing.client()
    lost = [
        client.semaphore("pool", limit=2, ttl=30).acquire(),
        client.rwlock("catalog", ttl=30).read().acquire(),
        client.election("jobs", ttl=30).campaign(),
    ]
    clock.run(3600)  # renewed all the time
    clock.advance(31)
    client.close()
    seen = [event for event in events if event.kind == "lost"]
    assert sorted(told(seen), key=str) == [
        ("lost", "lock", None, True),
        ("lost", "read", None, False),
        ("lost", "semaphore", 0, False),
    ]
    assert all(event.seconds is not None and event.seconds > 3600 for event in seen)
    assert {event.fence for event in seen} == {lease.fence for lease in lost}


def test_a_hold_is_counted_from_its_grant_and_not_from_its_last_renewal(
    events: list[Event],
) -> None:
    client, clock = testing.client()
    with client.lock("seat", ttl=30):
        clock.run(3600)
    client.close()
    assert events[-1].kind == "released"
    assert events[-1].seconds is not None
    assert events[-1].seconds >= 3600


def test_a_renewal_that_fails_tells_of_whom(events: list[Event]) -> None:
    faults = testing.Faults()
    client = faults.client()
    lease = client.semaphore("pool", limit=2, ttl=30).acquire()
    with faults.partition():
        faults.jump_clock(11)  # a third of its ttl: it is due
    lease.release()
    faults.close()
    failed = [event for event in events if event.kind == "renew_failed"]
    assert failed
    assert {(event.role, event.slot) for event in failed} == {("semaphore", 0)}
