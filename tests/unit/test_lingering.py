"""Locks that stay taken after their release or their loss, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock
from fencelock import LeaseLost, Unsupported, UsageError, testing
from fencelock.engines.memory import MemoryEngine
from fencelock.testing.faulty import Faults
from fencelock.testing.manual_clock.threads import Clock

TOKEN = "fl1.WyJzZWF0Iiwi"


def is_free(lock: fencelock.Lock) -> bool:
    lease = lock.try_acquire()
    return lease is not None and lease.release()


@pytest.fixture
def pair() -> Iterator[tuple[fencelock.Client, Clock]]:
    client, clock = testing.client()
    yield client, clock
    client.close()


def test_a_shortest_hold_ends_when_it_says(pair: tuple[fencelock.Client, Clock]) -> None:
    client, clock = pair
    rival = clock.connect()
    with client.lock("job", ttl=30, min_hold=100):
        clock.run(10)
    (holding,) = rival.holders("job")
    assert holding.remaining == pytest.approx(90)
    clock.advance(89)
    assert not is_free(rival.lock("job"))
    clock.advance(2)
    assert is_free(rival.lock("job"))
    rival.close()


def test_a_hold_that_was_long_enough_is_released_at_once(
    pair: tuple[fencelock.Client, Clock],
) -> None:
    client, clock = pair
    with client.lock("job", ttl=30, min_hold=100):
        clock.run(101)
    assert not client.holders("job")


def test_a_shortest_hold_outlives_its_client_and_an_error_of_the_body() -> None:
    client, clock = testing.client()
    rival = clock.connect()
    with pytest.raises(ZeroDivisionError), client.lock("job", min_hold=100):
        _ = 1 / 0
    kept = client.lock("other", min_hold=100).acquire()
    client.close()
    assert not kept
    for name in ("job", "other"):
        assert not is_free(rival.lock(name))
    clock.advance(101)
    for name in ("job", "other"):
        assert is_free(rival.lock(name))
    rival.close()


@pytest.mark.parametrize("lose", ["lose_requests", "lose_replies"])
def test_a_shortest_hold_is_kept_through_lost_messages(lose: str) -> None:
    faults = Faults()
    rival, clock = testing.client()
    client = clock.connect(faults=faults)
    lease = client.lock("job", ttl=30, min_hold=100).acquire()
    getattr(faults, lose)(2, "release")
    assert lease.release() is True
    clock.advance(99)
    assert not is_free(rival.lock("job"))
    clock.advance(2)
    assert is_free(rival.lock("job"))
    client.close()
    rival.close()


def test_what_could_not_be_said_is_said_in_the_background() -> None:
    """The engine is away when a lock with a shortest hold is released: no release is sent later."""
    faults = Faults()
    rival, clock = testing.client()
    client = clock.connect(faults=faults)
    lease = client.lock("job", ttl=30, min_hold=100).acquire()
    faults.outage("release")
    with pytest.raises(fencelock.OutcomeUnknown) as caught:
        lease.release()
    assert caught.value.until == pytest.approx(100)
    assert [owed.what for owed in client.owed] == ["release"]
    faults.heal()
    clock.run(10)
    assert not client.owed
    (holding,) = rival.holders("job")
    assert holding.remaining == pytest.approx(90)
    client.close()
    rival.close()


def test_a_lost_lock_is_kept_for_its_delay_and_no_longer(
    pair: tuple[fencelock.Client, Clock],
) -> None:
    client, clock = pair
    rival = clock.connect()
    lease = client.lock("disk", ttl=30, delay=60).acquire()
    assert lease.ttl == 30
    assert lease.remaining() <= 30
    clock.run(300)  # it is renewed as others are
    lease.check()
    clock.advance(31)
    with pytest.raises(LeaseLost, match="within its ttl of 30 s"):
        lease.check()
    clock.advance(45)
    assert not is_free(rival.lock("disk"))
    clock.advance(60)
    assert is_free(rival.lock("disk"))
    rival.close()


def test_a_released_lock_has_no_delay(pair: tuple[fencelock.Client, Clock]) -> None:
    client, clock = pair
    with client.lock("disk", ttl=30, delay=60):
        clock.run(100)
    assert is_free(client.lock("disk", ttl=30, delay=60))


def test_who_renews_with_another_ttl_keeps_the_delay(pair: tuple[fencelock.Client, Clock]) -> None:
    client, _ = pair
    lease = client.lock("disk", ttl=30, delay=60, renew=False).acquire()
    lease.renew(ttl=10)
    assert lease.remaining() <= 10
    (holding,) = client.holders("disk")
    assert holding.remaining == pytest.approx(70)
    assert lease.release() is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_hold": -1}, "min_hold must be between 0 and"),
        ({"min_hold": "5m"}, "min_hold must be a number of seconds"),
        ({"delay": float("nan")}, "delay must be a number of seconds"),
        ({"delay": 10**9}, "delay must be between 0 and"),
        ({"min_hold": 10, "max_hold": 5}, "min_hold=10 is more than max_hold=5"),
    ],
)
def test_wrong_values_are_refused(options: dict[str, object], words: str) -> None:
    with (
        fencelock.connect("memory://") as client,
        pytest.raises(UsageError, match=words),
    ):
        client.lock("a", **options)  # type: ignore[arg-type]


def test_engines_that_cannot_refuse_and_say_which_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryEngine, "session_bound", True)
    monkeypatch.setattr(MemoryEngine, "traits", MemoryEngine.traits._replace(scope="network"))
    with fencelock.connect("memory://bound") as client:
        with pytest.raises(Unsupported, match=r"delay was given: use mode=lease"):
            client.lock("a", delay=1)
        with pytest.raises(Unsupported, match=r"min_hold was given: use sqlite"):
            client.lock("a", min_hold=1)
        with (
            client.lock("a") as lease,
            pytest.raises(Unsupported, match=r"cannot be handed over: use sqlite"),
        ):
            lease.hand_over()


@pytest.mark.parametrize("token", ["", "x", TOKEN, "fl1.", "fl1.!!", TOKEN * 9, "fl1.bnVsbA"])
def test_what_is_no_token_is_refused_and_not_shown(token: str) -> None:
    with (
        fencelock.connect("memory://") as client,
        pytest.raises(UsageError, match="not the token of a lease") as caught,
    ):
        client.take_over(token)
    assert not token or token not in str(caught.value)


def test_the_token_of_a_share_keeps_it() -> None:
    from fencelock._client.lease_token import pack, unpack
    from fencelock.model import READERS_MAX, Grant, Share

    for share in (
        None,
        Share("semaphore", 1, 5, 0),
        Share("semaphore", 1, 5, 4),
        Share("rwlock", 1, READERS_MAX),
        Share("rwlock", READERS_MAX, READERS_MAX),
    ):
        grant = Grant("seat", "0f" * 16, 7, 30.0, 0.0, 0.0, share)
        assert unpack(pack(grant)) == (grant, 0.0)
        assert unpack(pack(grant, 5.0)) == (grant, 5.0)
    wrong = Grant("seat", "0f" * 16, 7, 30.0, 0.0, 0.0, Share("rwlock", 2, READERS_MAX))
    with pytest.raises(UsageError, match="not the token"):
        unpack(pack(wrong))
