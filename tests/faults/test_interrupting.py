"""KeyboardInterrupt in a program that waits or is about to get the lock leaves nothing behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import fencelock
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from tests.faults.crew import Crew
from tests.faults.flavors import SOON


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C without the keyboard: a way for another thread to interrupt the main one."""

    landed = threading.Event()
    main = threading.main_thread().ident or 0

    def interrupt(*_: object) -> None:
        landed.set()
        raise KeyboardInterrupt

    def hit() -> None:
        """One signal, in whatever moment: it must do."""
        signal.pthread_kill(main, signal.SIGUSR1)
        assert landed.wait(SOON), "the handler was never called"

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield hit
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.needs("waiters")
def test_an_interrupted_waiter_leaves_the_queue(url: str) -> None:
    """H09, blocking: KeyboardInterrupt in an acquire that waits."""
    with fencelock.connect(url) as client, fencelock.connect(url) as fresh, interrupts() as hit:
        holder = fresh.lock("seat").acquire()

        def interrupt_when_queued() -> None:
            queued = threading.Event()
            for _ in range(5000):
                if fresh.inspect("seat").waiters:
                    hit()
                    return
                queued.wait(0.002)

        thread = threading.Thread(target=interrupt_when_queued)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.lock("seat").acquire(timeout=SOON)
        thread.join(SOON)
        assert fresh.inspect("seat").waiters == ()
        assert holder.release() is True
        lease = fresh.lock("seat").try_acquire()
        assert lease is not None
        lease.release()


def test_an_interrupted_acquire_of_a_slow_engine_leaves_no_orphan(url: str) -> None:
    """H09, blocking: KeyboardInterrupt while the engine's answer is under way: it was granted."""
    faults = Faults()
    with faulty.connect(url, faults) as client, fencelock.connect(url) as fresh:
        with interrupts() as hit:
            faults.hang("acquire", where="after")

            def interrupt_when_granted() -> None:
                pause = threading.Event()
                for _ in range(5000):
                    if fresh.holders("seat"):
                        hit()
                        return
                    pause.wait(0.002)

            thread = threading.Thread(target=interrupt_when_granted)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                client.lock("seat", ttl=60).acquire()
            thread.join(SOON)
        assert fresh.inspect("seat").holders == ()


@pytest.mark.needs("waiters")
@pytest.mark.parametrize("flavor", ["sync", "asyncio"])
def test_a_process_interrupted_while_it_waits_leaves_the_queue(
    flavor: str, shared_url: str, crew: Crew
) -> None:
    """H09: SIGINT from outside, as Ctrl-C sends it, to a process that waits for a lock."""
    holder = crew.actor("sync", shared_url)
    holder.acquire("seat", ttl=60)
    waiter = crew.worker("waiter", flavor, shared_url, "seat")
    waiter.hear(event="waiting")
    holder.wait_queued("seat", 1)
    waiter.signal(signal.SIGINT)
    waiter.hear(event="interrupted")
    assert waiter.wait() == 0, waiter.errors()
    assert holder.ask("inspect", name="seat") == {"holders": 1, "waiters": 0}
    assert holder.ask("release", name="seat") is True
    holder.acquire("seat")
