"""What is said of leases that are over, of waits that would never end, and of calls in the midst of
a call."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator

import pytest

import fencelock
from fencelock import LeaseLost, UsageError, aio, observe
from fencelock.engines.memory import MemoryEngine
from fencelock.model import Busy, Grant, Request
from tests.faults.flavors import make_due

SOON = 20.0


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[fencelock.Client]:
    with fencelock.connect(f"memory://{request.node.name}") as client:
        yield client


def until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(int(SOON / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    pytest.fail("it was not so in time")


def until_renewed(lease: fencelock.Lease) -> None:
    before = lease.renewals
    make_due(lease)
    until(lambda: lease.renewals > before)


def test_a_released_lease_is_not_entered(client: fencelock.Client) -> None:
    lease = client.lock("seat").acquire()
    lease.release()
    with pytest.raises(LeaseLost, match="was released"), lease:
        pytest.fail("the body ran without the lock")


def test_a_lost_lease_is_not_entered(client: fencelock.Client) -> None:
    lease = client.lock("seat").acquire()
    client.revoke("seat", "the test wishes so")
    with pytest.raises(LeaseLost, match="the test wishes so"):
        lease.renew()
    with pytest.raises(LeaseLost), lease:
        pytest.fail("the body ran without the lock")


def test_neither_is_one_of_asyncio() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            lease = await client.lock("seat").acquire()
            await lease.release()
            with pytest.raises(LeaseLost, match="was released"):
                async with lease:
                    pytest.fail("the body ran without the lock")

    asyncio.run(main())


def test_releasing_an_old_lost_lease_leaves_the_new_one_to_be_entered_again(
    client: fencelock.Client,
) -> None:
    lock = client.lock("seat", reentrant=True)
    old = lock.acquire()
    client.revoke("seat", "the test wishes so")
    with pytest.raises(LeaseLost):
        old.renew()
    new = lock.acquire(timeout=SOON)
    assert old.release() is False
    again = lock.acquire(timeout=0)
    assert again.fence == new.fence
    again.release()
    new.release()


def test_waiting_for_what_one_holds_oneself_is_said(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with client.lock("seat"), caplog.at_level(logging.WARNING):
        assert client.lock("seat").try_acquire(timeout=0.01) is None
    assert "which it holds itself" in caplog.text


def test_another_slot_may_be_waited_for(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has the other one: that wait ends."""
    semaphore = client.semaphore("seat", limit=2)
    others: list[fencelock.Lease] = []
    thread = threading.Thread(target=lambda: others.append(semaphore.acquire()))
    thread.start()
    thread.join(SOON)
    with semaphore, client.lock("seat"), caplog.at_level(logging.WARNING):
        assert semaphore.try_acquire(timeout=0.01) is None
    assert caplog.text == ""
    others[0].release()


def test_waiting_for_a_slot_beside_all_of_one_s_own_is_said(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    semaphore = client.semaphore("seat", limit=2)
    with semaphore, semaphore, caplog.at_level(logging.WARNING):
        assert semaphore.try_acquire(timeout=0.01) is None
    assert "whose 2 slot(s) it holds all by itself: release that lease first" in caplog.text
    assert "reentrant" not in caplog.text, "a semaphore has no such option"


def test_reading_again_behind_a_writer_that_waits_is_said(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer waits for the first read lock, and the second read lock waits for the writer."""
    lock = client.rwlock("seat")
    with lock.read():
        writer = threading.Thread(target=lambda: lock.write().acquire(timeout=SOON).release())
        writer.start()
        while not client.inspect("seat").waiters:
            pass
        with caplog.at_level(logging.WARNING):
            assert lock.read().try_acquire(timeout=0.01) is None
    writer.join(SOON)
    assert "it waits for 'seat', which it holds itself: release that lease first" in caplog.text


def test_kinds_of_one_name_are_not_waited_for_by_each_other(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    held = threading.Event()
    over = threading.Event()

    def write() -> None:
        with client.rwlock("seat").write():
            held.set()
            over.wait(SOON)

    writer = threading.Thread(target=write)
    writer.start()
    held.wait(SOON)
    with client.lock("seat"), caplog.at_level(logging.WARNING):
        assert client.rwlock("seat").read().try_acquire(timeout=0.01) is None
    over.set()
    writer.join(SOON)
    assert caplog.text == ""


def test_a_blocking_client_that_waits_in_an_event_loop_is_told(
    client: fencelock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        assert client.lock("seat").try_acquire(timeout=0.01) is None

    holder: list[fencelock.Lease] = []
    thread = threading.Thread(target=lambda: holder.append(client.lock("seat").acquire()))
    thread.start()
    thread.join(SOON)
    asyncio.run(main())
    assert "use fencelock.aio there" in caplog.text
    holder[0].release()


# Tasks and listeners


@pytest.mark.filterwarnings("ignore:the lease on 'seat'")
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_lease_that_only_an_ended_task_knew_is_collected(reentrant: bool) -> None:
    """A task has its result: whoever keeps the task keeps the lease, which is then renewed."""

    async def main() -> None:
        async with aio.connect("memory://") as client:
            task = asyncio.create_task(client.lock("seat", reentrant=reentrant).acquire())
            await asyncio.wait([task])
            lease = weakref.ref(task.result())
            del task
            await asyncio.sleep(0)
            gc.collect()
            assert lease() is None
            assert len(client._core.keeper) == 0

    asyncio.run(main())


def test_a_slow_log_handler_costs_nobody_a_lease(client: fencelock.Client) -> None:
    """The keeper decides; others write to the log."""
    stuck, go_on = threading.Event(), threading.Event()

    def slow(message: str) -> None:
        stuck.set()
        go_on.wait(SOON)

    observe.redirect(slow)
    try:
        kept = client.lock("kept", ttl=60).acquire()
        lost = client.lock("lost", ttl=0.2, renew=False).acquire()
        assert stuck.wait(SOON)
        for _ in range(3):
            until_renewed(kept)
        assert kept
        assert not lost
    finally:
        go_on.set()
        observe.redirect(None)
    kept.release()


def test_a_lease_that_ran_out_is_dropped_without_a_warning(client: fencelock.Client) -> None:
    """Though nobody has noticed yet: there is nothing that it could have released."""
    lease = client.lock("seat", ttl=60).acquire()
    client._core.keeper.stop()
    lease._hold.grant = lease._hold.grant._replace(valid_until=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del lease
        gc.collect()


# Calls in the midst of a call


def test_a_signal_handler_that_uses_the_client_in_the_midst_of_a_call_is_told(
    client: fencelock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for a mutex that its own thread has."""
    raised = list[BaseException]()

    def handle(*_: object) -> None:
        try:
            client.lock("other").try_acquire()
        except UsageError as error:
            raised.append(error)

    acquire, pid = MemoryEngine.acquire, os.getpid()

    async def struck(self: MemoryEngine, request: Request) -> Grant | Busy:
        if request.name == "seat":
            os.kill(pid, signal.SIGUSR1)
            threading.Event().wait(0.01)
        return await acquire(self, request)

    before = signal.signal(signal.SIGUSR1, handle)
    monkeypatch.setattr(MemoryEngine, "acquire", struck)
    try:
        with client.lock("seat"):
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(raised) == 1
    assert "Set a flag there" in str(raised[0])
    assert client.holders("other") == []
    with client.lock("other"):  # between two calls it may
        pass


def test_a_loss_that_the_body_did_not_live_to_see_cancels_nothing_later() -> None:
    """The body ends in the same step in which its lease is lost, and nothing of leaving waits."""

    async def main() -> None:
        async with aio.connect("memory://") as client:
            with pytest.raises(LeaseLost):
                async with client.lock("seat") as lease:
                    lease._core.keeper.lose(lease._hold, "revoked", "the test wishes so")
            await asyncio.sleep(0)  # would be cancelled
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()

    asyncio.run(main())
