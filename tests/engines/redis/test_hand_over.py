"""When a lease began that the server handed to a waiter, by the waiter's own clock."""

from __future__ import annotations

from typing import cast

import pytest

from fencelock.engines.redis.listener import Listener
from fencelock.engines.redis.script_runner import ScriptRunner
from fencelock.engines.waiters import DRIFT
from fencelock.sim.world import Simulation

TTL = 3.0


@pytest.fixture
def listener() -> Listener:
    world = Simulation(1).world("client")
    listener = Listener(world, cast("ScriptRunner", None), 1.0, "1")  # which nobody needs here
    listener.join("seat", "owner", world.now() - 2.0)
    return listener


def test_it_counts_from_when_the_waiter_asked_plus_its_wait(listener: Listener) -> None:
    listener._received(b"owner 7 1500")
    handed = listener.waiters.pushed_grant("owner", TTL)
    assert handed is not None
    fence, since = handed
    now = listener._world.now()
    assert fence == 7
    assert since == pytest.approx(now - 2.0 + 1.5 * (1 - DRIFT), abs=0.002)
    assert since <= now - 0.5, "never later than the hand-over itself"
    assert listener.waiters.pushed_grant("owner", TTL) is None, "told once"


def test_a_wait_longer_than_ours_means_that_the_servers_clock_has_stepped(
    listener: Listener,
) -> None:
    """H34: nothing is believed, and the server is asked."""
    listener._received(b"owner 7 2500")
    assert listener.waiters.pushed_grant("owner", TTL) is None


def test_a_very_long_wait_tells_nothing(listener: Listener) -> None:
    """The clocks may have run apart by more than what the lease can spare."""
    waiter = listener.waiters.by_owner["owner"]
    assert waiter.joined_at is not None
    waiter.joined_at -= 20 * TTL
    listener._received(b"owner 7 %d" % (11 * TTL * 1000))
    assert listener.waiters.pushed_grant("owner", TTL) is None


def test_what_somebody_was_handed_who_gave_up_is_forgotten(listener: Listener) -> None:
    listener.unwatch("seat", "owner")
    listener._received(b"owner 7 1500")
    listener.join("seat", "owner", listener._world.now())
    assert listener.waiters.pushed_grant("owner", TTL) is None


def test_what_somebody_was_handed_who_gave_it_back_and_waits_on_is_over(
    listener: Listener,
) -> None:
    listener.watch("seat", "owner", listener._world.signal())
    listener._received(b"owner 7 1500")
    listener.withdraw("seat", "owner")
    assert listener.waiters.pushed_grant("owner", TTL) is None
    listener._received(b"owner 7 1500")  # the word was still under way
    assert listener.waiters.pushed_grant("owner", TTL) is None
    listener._received(b"owner")
    assert "owner" in listener.waiters, "it hears of its next turn"


def test_a_bare_call_hands_over_nothing(listener: Listener) -> None:
    listener._received(b"owner")
    assert listener.waiters.pushed_grant("owner", TTL) is None
