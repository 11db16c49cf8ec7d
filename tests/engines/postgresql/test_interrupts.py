"""Exceptions from signal handlers, at any moment of a call: nothing is used up or left behind."""

from __future__ import annotations

import gc
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import fencelock
from fencelock import FencelockError
from fencelock.engines.postgresql.keys import key_of
from tests.faults.flavors import SOON
from tests.servers.postgresql import Postgresql
from tests.servers.server import until

Link = psycopg.Connection[Any]

HITS = 150
MODES = ["mode=lease&pool=2", "mode=advisory&pool=2", "mode=row&pool=2"]


class Hit(Exception):
    """Raised by the handler."""


@contextmanager
def alarms() -> Iterator[list[bool]]:
    """Let a timer interrupt the main thread, once for each time that it was armed."""
    armed = [False]

    def hit(*_: object) -> None:
        if armed[0]:
            armed[0] = False
            raise Hit

    before = signal.signal(signal.SIGALRM, hit)
    try:
        yield armed
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a destructor
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", MODES)
def test_exceptions_at_any_moment_use_nothing_up(
    options: str, seed: int, server: Postgresql, table: str, link: Link
) -> None:
    name = f"app_{table}_{seed}"
    url = server.url(f"table={table}&application_name={name}&{options}")
    with fencelock.connect(url) as client, warnings.catch_warnings():
        # Leases and coroutines that an exception has kept from whoever asked for them.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        done = threading.Event()

        def work() -> None:  # another thread goes on all the while
            while not done.is_set():
                with client.lock("other", ttl=30, timeout=30):
                    pass

        worker = threading.Thread(target=work)
        worker.start()
        try:
            storm(client, random.Random(seed))
        finally:
            done.set()
            worker.join(SOON)
        assert not worker.is_alive()
        gc.collect()
        for number in range(3):
            with client.lock(f"seat {number}", ttl=30, timeout=SOON) as lease:
                lease.check()
        taken = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND state LIKE 'idle in transaction%%'"
        )
        until(lambda: link.execute(taken, (name,)).fetchone() == (0,), "no open transaction")
        until(lambda: not client.scan(), "nobody to hold anything")


def storm(client: Any, chance: random.Random) -> None:
    """Lock and unlock under a rain of exceptions, at moments that nobody chose."""
    hits = 0
    with alarms() as armed:
        while hits < HITS:
            # A lease that was dropped before anybody had it ends with its ttl.
            lock = client.lock(f"seat {chance.randrange(3)}", ttl=3, timeout=5)
            try:
                armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.003))
                while armed[0]:
                    with lock as lease:
                        lease.renew()
            except (Hit, FencelockError, RuntimeError):  # the last is of a thread that was to start
                hits += 1
            armed[0] = False


def test_an_exception_as_the_first_wait_begins_does_not_leave_later_ones_without_an_answer(
    server: Postgresql, table: str, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that polls for all waits is started by the first."""
    start = threading.Thread.start
    hits = [Hit]

    def hit(thread: threading.Thread) -> None:
        if thread.name == "fencelock-poller" and hits and in_main():
            raise hits.pop()
        start(thread)

    def in_main() -> bool:
        return threading.current_thread() is threading.main_thread()

    monkeypatch.setattr(threading.Thread, "start", hit)
    key = key_of(table)
    with fencelock.connect(server.url(f"table={table}&mode=advisory")) as client:
        link.execute("SELECT pg_advisory_lock(%s)", (key,))
        for _ in range(2):
            try:
                assert client.lock(table).try_acquire(timeout=0.1) is None
            except Hit:
                pass
        leaving = threading.Timer(0.1, link.execute, ("SELECT pg_advisory_unlock_all()",))
        leaving.start()
        client.lock(table, timeout=SOON).acquire().release()
        leaving.join(SOON)
