"""Uses a client while signal handlers raise: ``… signaled URL SEED CALLS``.

All calls are made in the main thread. Says ``attacked`` with what is left, and ``hung`` with the
stacks of all threads when it does not come to an end.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import fencelock
from fencelock import AcquireTimeout, Unavailable
from tests.faults.moments import Moments

T = TypeVar("T")

TTL = 3.0
LATER_S = 10.0  # what is left to its ttl must be gone by then
HUNG_S = 150.0


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Attack:
    """One client, whose calls are hit one after the other, and one that is left in peace."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.moments = Moments(seed)
        self.client = fencelock.connect(url)
        self.witness = fencelock.connect(url)
        self.troubles: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.used = {"first", "busy", "afterwards"}
        self.client.lock("first").acquire().release()  # opened in peace; close() opens others
        self.busy = self.witness.lock("busy", ttl=600).acquire()

    def strike(self, what: str, call: Callable[[], T]) -> T | None:
        """Nothing but the handler's exception may come out of a call."""
        try:
            result = self.moments.strike(what, call)
        except AcquireTimeout:
            return None
        except BaseException as error:
            self.troubles[f"{what}: {error!r}"] += 1
            return None
        if result is not None:
            self.done[what] += 1
        return result

    def peacefully(self, what: str, call: Callable[[], object]) -> None:
        """Nothing may come out of a call that nobody disturbs."""
        try:
            call()
        except BaseException as error:
            self.troubles[f"{what}, in peace: {error!r}"] += 1

    def use(self, number: int) -> None:
        """Acquire, renew, and end the lease in one of several ways."""
        self.used.add(f"seat-{number}")
        lock = self.client.lock(f"seat-{number}", ttl=TTL)
        lease = self.strike("acquire", lock.acquire)
        if lease is None:
            return
        self.strike("renew", lease.renew)
        way = number % 3
        if way == 0:
            self.strike("release", lease.release)
            self.peacefully("release", lease.release)
        elif way == 1:
            self.strike("release", lease.release)  # and dropped, if that was hit

    def wait(self) -> None:
        """Wait in vain, and be hit while waiting."""
        lock = self.client.lock("busy", ttl=TTL)
        self.strike("wait", lambda: lock.acquire(timeout=0.02))

    def close(self) -> None:
        """Open a client, hold a lock and close both, from the first byte to the last."""
        client = fencelock.connect(self.url)
        name = f"closed-{self.moments.hits}"
        self.used.add(name)
        lease = self.strike("open", lambda: client.lock(name, ttl=TTL).acquire())
        self.strike("close", client.close)
        self.peacefully("close", client.close)
        del lease

    def prove(self) -> None:
        """See that the client still does what it is for."""
        with self.client.lock("afterwards", ttl=TTL, timeout=LATER_S) as lease:
            lease.renew()
            lease.check()
        assert self.busy.release(), "the lease of the one left in peace was lost"

    def left(self) -> list[str]:
        """Names that are held although nobody holds them, once a ttl has passed."""
        gc.collect()
        if self.witness.traits.scan:
            return until_none(lambda: [holding.name for holding in self.witness.scan()])
        names = sorted(self.used)
        return until_none(lambda: [name for name in names if self.witness.holders(name)])

    def waiting(self) -> int:
        """How many stand in a queue although nobody waits."""
        return len(until_none(lambda: self.witness.inspect("busy").waiters))


def until_none(look: Callable[[], Sequence[T]]) -> list[T]:
    """What is still there when it should have gone. A look that was not answered is none."""
    give_up = time.monotonic() + TTL + LATER_S
    while True:
        try:
            there = [*look()]
        except Unavailable:
            if time.monotonic() >= give_up:
                raise
        else:
            if not there or time.monotonic() >= give_up:
                return there
        time.sleep(0.05)


def main(url: str, seed: int, calls: int) -> None:
    warnings.simplefilter("ignore")  # leases are dropped on purpose, coroutines by the handlers
    faulthandler.dump_traceback_later(HUNG_S, exit=True)
    attack = Attack(url, seed)
    for number in range(calls):
        attack.use(number)
        if number % 4 == 0:
            attack.wait()
        if number % 20 == 0:
            attack.close()
    waiters = attack.waiting()
    attack.peacefully("afterwards", attack.prove)
    say(
        event="attacked",
        hits=attack.moments.hits,
        done=attack.done,
        waiters=waiters,
        left=attack.left(),
        troubles=attack.troubles,
    )
    attack.client.close()
    attack.witness.close()
    say(event="closed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
