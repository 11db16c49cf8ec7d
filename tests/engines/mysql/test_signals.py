"""Exceptions from signal handlers, at any moment, use nothing up and leave nothing behind."""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

import fencelock
from tests.engines.signal_injection import InjectedSignal, SignalInjection
from tests.engines.uncollected import uncollected
from tests.servers.mariadb import SqlServer

NAMES = [f"seat:{number}" for number in range(4)]
COUNT = 150  # interruptions
PATHS = ("/engines/mysql/wire/pool.py",)


class Alarm(Exception):
    """What the handler raises."""


@contextmanager
def handled() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def wanted(
    client: fencelock.Client, kind: str, name: str, ttl: float = 3, timeout: float = 20
) -> fencelock.Lock:
    """A lock, or what stands for a share: a slot of one, a write lock."""
    if kind == "slot":
        return client.semaphore(name, limit=1, ttl=ttl, timeout=timeout)
    if kind == "writer":
        return client.rwlock(name, ttl=ttl, timeout=timeout).write()
    return client.lock(name, ttl=ttl, timeout=timeout)


def interrupted(client: fencelock.Client, kind: str, chance: random.Random) -> int:
    """One pair of acquire and release that a signal may interrupt; 1 if it has."""
    lease = None
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.002))
            lease = wanted(client, kind, chance.choice(NAMES), timeout=5).acquire()
            lease.renew()
            lease.release()
            return 0
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        pass
    except fencelock.FencelockError:
        pass
    try:
        if lease is not None:
            lease.release()
    except fencelock.FencelockError:
        pass
    return 1


def see_no_transaction(server: SqlServer) -> None:
    """Wait for the undos that go on in the background: after them none is open."""
    opened = server.transactions()
    for _ in range(100):
        if opened:
            opened = server.transactions()
    assert opened == [], "a transaction stays open"


@pytest.mark.parametrize(
    ("mode", "what"),
    [("lease", "lock"), ("lease", "slot"), ("lease", "writer"), ("advisory", "lock")],
)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_signals_interrupt_leaves_connections_for_others_and_no_transaction_open(
    own: SqlServer, table: str, mode: str, what: str, seed: int
) -> None:
    assert threading.current_thread() is threading.main_thread()
    chance = random.Random(seed)
    names = [f"{table}:{name}" for name in NAMES]
    with fencelock.connect(own.url(), mode=mode, table=table, pool=2, request_timeout=3) as client:
        wanted(client, what, "first").acquire().release()
        with handled():
            done = 0
            for _ in range(20 * COUNT):
                done += interrupted(client, what, chance)
                if done >= COUNT:
                    break
        assert done >= COUNT
        failures: list[BaseException] = []

        def use(name: str) -> None:
            try:
                wanted(client, what, name).acquire().release()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=use, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failures == []
        with fencelock.connect(own.url(), mode=mode, table=table) as other:
            for name in NAMES:
                wanted(other, what, name, ttl=5).acquire().release()
        see_no_transaction(own)


@pytest.mark.parametrize("what", ["lock", "slot", "writer"])
def test_a_signal_at_any_moment_of_the_pool_leaves_connections_for_others(
    server: SqlServer, table: str, what: str
) -> None:
    """A connection that was lost on its way has its room until nobody knows it.

    An error of the server that it had before, as each packet has that wakes nobody, must not know
    it: the two would wait for the collector, and everybody else for them.
    """
    names = (f"seat:{number}" for number in count())
    with (
        fencelock.connect(server.url(), table=table, pool=2, request_timeout=15) as client,
        fencelock.connect(server.url(), table=table) as other,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # leases that were dropped where the signal came

        def work() -> Callable[[], None]:
            name = next(names)
            wanted(client, what, name, ttl=30).acquire().release()
            held = wanted(other, what, name, ttl=30).acquire()

            def refused_then_granted() -> None:
                with held:
                    assert wanted(client, what, name, ttl=30).try_acquire() is None
                wanted(client, what, name, ttl=30).acquire().release()

            return refused_then_granted

        work()()
        with SignalInjection(PATHS) as quiet:
            work()()
        assert quiet.moments > 20
        with uncollected():
            for moment in range(1, quiet.moments + 1):
                interrupted_work = work()
                try:
                    with SignalInjection(PATHS, moment):
                        interrupted_work()
                except InjectedSignal:
                    pass
                del interrupted_work
                wanted(client, what, next(names), ttl=30).acquire().release()
        see_no_transaction(server)
