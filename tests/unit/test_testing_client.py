"""`testing.client()`: time moves by hand, and when a move is over everything has happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from fencelock import AcquireTimeout, Expired, LeaseLost, UsageError, testing
from tests.unit.conftest import Made


class Beside:
    """Something done in another thread, with what it returned or raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.answer: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._work()
        except BaseException as error:
            self.error = error

    def join(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.answer


def waiting(client: fencelock.Client, name: str, count: int = 1) -> Callable[[], bool]:
    return lambda: len(client.inspect(name).waiters) >= count


def test_a_frozen_holder_has_lost_its_lease_when_the_jump_is_over(made: Made) -> None:
    client, clock = made
    told: list[LeaseLost] = []
    lease = client.lock("a", ttl=30, on_lost=told.append).acquire()
    clock.advance(31)
    assert [type(loss) for loss in told] == [Expired]
    assert lease.lost.is_set()
    assert not lease
    assert "was not renewed within its ttl of 30 s" in str(lease.reason)
    with pytest.raises(Expired):
        lease.check()


def test_a_short_freeze_does_no_harm(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30).acquire()
    for _ in range(10):
        clock.advance(29)
        assert lease.remaining() > 29  # renewed as soon as it could be
    assert lease.release()


def test_a_program_that_runs_keeps_its_lease(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30).acquire()
    clock.run(1000)
    assert lease
    assert client.lock("a").try_acquire() is None
    assert lease.release()


def test_time_is_what_the_clock_says(made: Made) -> None:
    client, clock = made
    began = clock.now()
    lease = client.lock("a", ttl=30, renew=False).acquire()
    clock.run(29)
    assert clock.now() == began + 29
    assert 0 < lease.remaining() < 1
    (shown,) = client.holders("a")
    assert (shown.age, shown.remaining) == (29, 1)
    clock.run(1)
    assert lease.lost.is_set()
    assert "renewal is off" in str(lease.reason)


def test_the_longest_hold_ends_a_lease_that_is_renewed(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=10, max_hold=60).acquire()
    clock.run(59)
    assert lease
    clock.run(1)
    assert lease.reason == "its max_hold was reached"


def test_a_block_raises_when_its_lease_was_lost(made: Made) -> None:
    client, clock = made
    with pytest.raises(Expired):
        with client.lock("a", ttl=30):
            clock.advance(31)


def test_fences_are_one_two_three(made: Made) -> None:
    client, _ = made
    fences = []
    for _ in range(3):
        with client.lock("a") as lease:
            fences.append(lease.fence)
    assert fences == [1, 2, 3]


def test_a_rival_shares_the_locks_and_the_clock(made: Made) -> None:
    client, clock = made
    with clock.connect() as rival:
        lease = client.lock("a", ttl=30, renew=False).acquire()
        assert rival.lock("a").try_acquire() is None
        clock.advance(30)
        with rival.lock("a") as other:
            assert other.fence == 2
        assert not lease


def test_clocks_are_apart() -> None:
    (one, clock), (other, _) = testing.client(), testing.client()
    with one, other:
        mine, its = one.lock("a", renew=False).acquire(), other.lock("a", renew=False).acquire()
        clock.advance(31)
        assert (bool(mine), bool(its)) == (False, True)


def test_a_waiter_has_the_lock_when_the_jump_is_over(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30, renew=False).acquire()
    waiter = Beside(client.lock("a", ttl=30, timeout=60).acquire)
    clock.until(waiting(client, "a"))
    clock.advance(29)
    assert lease
    clock.advance(1)
    assert [holding.fence for holding in client.holders("a")] == [2]
    assert waiter.join().fence == 2
    assert waiter.join().release()


def test_a_waiter_has_given_up_when_its_time_is_over(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30).acquire()
    waiter = Beside(client.lock("a", timeout=60).acquire)
    clock.until(waiting(client, "a"))
    clock.run(59)
    assert waiting(client, "a")()
    clock.run(1)
    assert client.inspect("a").waiters == ()
    waiter.join()
    assert isinstance(waiter.error, AcquireTimeout)
    assert lease.release()


def test_who_waits_for_a_loss_is_told(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30, renew=False).acquire()
    told = threading.Event()

    def wait() -> bool:
        told.set()
        return lease.lost.wait(timeout=100)

    watcher = Beside(wait)
    assert told.wait(20)
    clock.run(31)
    assert watcher.join() is True


def test_who_waits_in_vain_for_a_loss_is_let_go(made: Made) -> None:
    client, clock = made
    lease = client.lock("a", ttl=30).acquire()
    watcher = Beside(lambda: lease.lost.wait(timeout=100))
    while watcher.answer is None:
        clock.run(10)
    assert watcher.join() is False
    assert lease.release()


@pytest.mark.parametrize("_", range(5))
def test_the_same_test_takes_the_same_course(_: int) -> None:
    """Waiters that come in turn are served in turn, in one jump after the other."""
    client, clock = testing.client()
    with client:
        turns: list[int] = []

        def take_turn(number: int) -> None:
            with client.lock("a", ttl=5, timeout=1000):
                turns.append(number)

        lease = client.lock("a", ttl=5, renew=False).acquire()
        threads = []
        for number in range(5):
            threads.append(Beside(lambda number=number: take_turn(number)))  # type: ignore[misc]
            clock.until(waiting(client, "a", number + 1))
        clock.run(6)
        for thread in threads:
            thread.join()
        assert turns == [0, 1, 2, 3, 4]
        assert not lease


def test_a_callback_may_use_the_client_and_the_clock(made: Made) -> None:
    client, clock = made
    fences: list[int] = []

    def take_again(loss: LeaseLost) -> None:
        clock.advance(1)
        with client.lock("a") as lease:
            fences.append(lease.fence)

    lease = client.lock("a", ttl=30, on_lost=take_again).acquire()
    clock.advance(31)
    assert fences == [2]
    assert not lease


def test_a_callback_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    client, clock = testing.client()
    stuck = threading.Event()
    with client:
        lease = client.lock("a", ttl=30, on_lost=lambda loss: stuck.wait()).acquire()
        with (
            monkeypatch.context() as patch,
            pytest.raises(RuntimeError, match="still at work: fencelock-on-lost"),
        ):
            patch.setattr(clock._timeline, "real_timeout", 1.0)
            clock.advance(31)
        stuck.set()
        clock.settle()
        assert not lease


def test_a_call_that_waits_for_a_clock_that_stands_still_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, clock = testing.client()
    with client:
        with client.lock("a"):
            with (
                monkeypatch.context() as patch,
                pytest.raises(RuntimeError, match="its clock moves by hand only"),
            ):
                patch.setattr(clock._timeline, "real_timeout", 1.0)
                client.lock("a", timeout=5).acquire()
            assert client.inspect("a").waiters == ()


def test_waiting_for_what_never_comes_ends() -> None:
    client, clock = testing.client(real_timeout=0.1)
    with client, pytest.raises(RuntimeError, match="not so"):
        clock.until(lambda: False)


@pytest.mark.parametrize("by", [-1, float("nan"), float("inf")])
def test_time_moves_forward_only(made: Made, by: float) -> None:
    _, clock = made
    before = clock.now()
    for move in (clock.advance, clock.run):
        with pytest.raises(UsageError, match="time moves forward"):
            move(by)
    assert clock.now() == before


def test_closing_ends_all_threads() -> None:
    before = set(threading.enumerate())
    client, clock = testing.client()
    with client:
        lease = client.lock("a").acquire()
        clock.run(100)
    assert not lease
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive()


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'watch'"):
        testing.watch  # noqa: B018  # type: ignore[attr-defined]
    assert {"client", "aio_client", "lose", "conformance", "faulty"} <= set(dir(testing))
