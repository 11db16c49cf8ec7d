"""Exceptions of signal handlers at any moment of any call harm neither this client nor others."""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import fencelock
from fencelock import AcquireTimeout, OutcomeUnknown, Unavailable
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.shared import shared

ROUNDS = 200
TTL = 4.0  # of a lease that was interrupted on its way to its caller, who cannot release it
SOON = 30.0


class Hit(BaseException):
    """What the handler raises."""


def single() -> Redis:
    return Redis()


def several() -> Nodes:
    return Nodes()


@contextmanager
def hits(seed: int) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Run something with an exception at a random moment of its first milliseconds."""
    chance = random.Random(seed)
    armed = False

    def raise_hit(*_: object) -> None:
        if armed:
            raise Hit

    def attack(work: Callable[[], None]) -> None:
        nonlocal armed
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.random() ** 3 * 0.006 + 1e-6)
            work()
        except (Hit, AcquireTimeout, OutcomeUnknown, Unavailable):
            pass
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, raise_hit)
    try:
        yield attack
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore")  # leases that were lost on their way to their caller
@pytest.mark.parametrize("engine", ["redis", "redlock"])
def test_a_client_survives_interrupts_at_any_moment(engine: str) -> None:
    """H09: other threads of it go on, nobody hangs, and nothing is held or renewed for nobody."""
    url = shared(single).fresh_url() if engine == "redis" else shared(several).url
    stop = threading.Event()
    wrong: list[BaseException] = []
    done: list[int] = []

    def work(client: fencelock.Client) -> None:
        while not stop.is_set():
            try:
                with client.lock("shared", ttl=TTL, timeout=SOON):
                    done.append(1)
            except (OutcomeUnknown, Unavailable):
                pass  # it shares a connection with the one who is interrupted
            except BaseException as error:
                wrong.append(error)

    client, other = fencelock.connect(url), fencelock.connect(url)
    threads = [threading.Thread(target=work, args=(client,), daemon=True) for _ in range(2)]
    with warnings.catch_warnings(), hits(7) as attack:
        warnings.simplefilter("ignore")
        held = other.lock("busy", ttl=600).acquire()
        for thread in threads:
            thread.start()
        for number in range(ROUNDS):
            lock = client.lock(f"name {number % 4}", ttl=TTL, timeout=5)
            busy = client.lock("busy", ttl=TTL, timeout=0.004)
            attack(lambda lock=lock: lock.acquire().release())  # type: ignore[misc]
            attack(lambda lock=lock: _renew(lock))  # type: ignore[misc]
            attack(lambda busy=busy: busy.acquire().release())  # type: ignore[misc]
    so_far = len(done)
    while len(done) <= so_far and threads[0].is_alive():
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive(), "a thread that nobody interrupted hangs"
    assert wrong == []
    assert held.release() is True
    for name in ("busy", "shared", *(f"name {number}" for number in range(4))):
        for user in (other, client):
            user.lock(name, ttl=TTL).acquire(timeout=SOON).release()
        assert other.inspect(name)[1:3] == ((), ()), "somebody holds it, or waits, for nobody"
    client.close()
    other.close()


def _renew(lock: fencelock.Lock) -> None:
    with lock as lease:
        lease.renew()
