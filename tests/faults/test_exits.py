"""A program that ends gives back what it holds, and does not hang."""

from __future__ import annotations

import signal

import pytest

import fencelock
from tests.faults.crew import Crew, Worker

STATUS = {"end": 0, "sys.exit": 3, "unhandled": 1, "SIGTERM": 3, "SIGINT": -signal.SIGINT}


def see_it_end(leaver: Worker, way: str) -> int:
    leaver.hear(event="acquired")
    if way in ("SIGTERM", "SIGINT"):
        leaver.signal(signal.Signals[way])
    return leaver.wait()


@pytest.mark.needs("loop_end")
@pytest.mark.parametrize("way", STATUS)
def test_a_program_that_ends_releases_at_once(
    flavor: str, shared_url: str, crew: Crew, way: str
) -> None:
    """H33: by its end, by sys.exit, by an error, by SIGTERM turned into SystemExit, by Ctrl-C."""
    leaver = crew.worker("leaver", flavor, way, shared_url)
    assert see_it_end(leaver, way) == STATUS[way], leaver.errors()
    with fencelock.connect(shared_url) as client:
        lease = client.lock("seat").try_acquire()
        assert lease is not None, leaver.errors()
        assert lease.fence > leaver.hear(event="acquired")["fence"]
        lease.release()
    assert "ResourceWarning" not in leaver.errors()


@pytest.mark.needs("waiters")
def test_a_program_ends_although_a_thread_waits(shared_url: str, crew: Crew) -> None:
    """H33: a daemon thread waits for a lock of another process; nothing keeps the interpreter."""
    with fencelock.connect(shared_url) as client:
        taken = client.lock("taken").acquire()
        leaver = crew.worker("leaver", "sync", "waiter", shared_url)
        assert see_it_end(leaver, "end") == 0, leaver.errors()
        lease = client.lock("seat").try_acquire()
        assert lease is not None
        lease.release()
        assert taken.release() is True
        free = client.lock("taken").acquire(timeout=10)
        free.release()


@pytest.mark.needs("waiters", "scan")
def test_all_tasks_of_an_interrupted_loop_release(shared_url: str, crew: Crew) -> None:
    """H33: Ctrl-C while some tasks hold and one waits."""
    leaver = crew.worker("leaver", "asyncio", "tasks", shared_url)
    leaver.hear(event="acquired")
    leaver.signal(signal.SIGINT)
    assert leaver.wait() == -signal.SIGINT, leaver.errors()
    with fencelock.connect(shared_url) as client:
        assert client.scan() == []
        assert client.inspect("seat").waiters == ()


@pytest.mark.needs("scan", "loop_end")
def test_a_task_that_nobody_awaits_releases_when_the_loop_ends(shared_url: str, crew: Crew) -> None:
    """H33: asyncio.run cancels what is left over."""
    leaver = crew.worker("leaver", "asyncio", "loose", shared_url)
    assert see_it_end(leaver, "end") == 0, leaver.errors()
    with fencelock.connect(shared_url) as client:
        assert client.scan() == [], leaver.errors()


@pytest.mark.needs("scan", "loop_end")
def test_a_release_under_way_is_finished_when_the_loop_ends(shared_url: str, crew: Crew) -> None:
    """H33: asyncio.run cancels all tasks, and the one that gives the lock back must not be hit."""
    leaver = crew.worker("leaver", "asyncio", "slow", shared_url)
    assert see_it_end(leaver, "end") == 0, leaver.errors()
    with fencelock.connect(shared_url) as client:
        assert client.scan() == [], leaver.errors()


def test_a_loop_that_ends_with_a_bare_lease_does_not_hang(shared_url: str, crew: Crew) -> None:
    """H33: nobody is left who could release: the ttl does, and the program ends all the same."""
    leaver = crew.worker("leaver", "asyncio", "bare", shared_url)
    assert see_it_end(leaver, "end") == 0, leaver.errors()
    with fencelock.connect(shared_url) as client:
        lease = client.lock("seat").acquire(timeout=10)
        lease.release()
