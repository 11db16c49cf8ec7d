"""Works an engine while signal handlers raise: ``… signaled_engine URL SEED CALLS``.

The calls are those that the core makes, in the main thread; other threads of the same client work
on in peace. Says ``attacked`` when all calls are made, and ends when stdin does.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading

from fencelock.engine import Engine
from fencelock.engines import resolve
from fencelock.model import Busy, Grant, Request, queued
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.faults.moments import Moments

NAMES = ("a", "b", "c")
TTL = 600.0


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Attack:
    """One engine, whose calls are hit one after the other."""

    def __init__(self, url: str, seed: int) -> None:
        self.world = ThreadsWorld()
        kind, address = resolve(url, {})
        self.engine: Engine = kind(self.world, address)
        self.moments = Moments(seed)
        self.requests: list[Request] = []
        self.troubles: list[str] = []
        self.stop = threading.Event()
        self.turns = 0
        drive(self.engine.open())

    def work(self, label: str) -> None:
        """What another thread does meanwhile: nobody hits it."""
        try:
            while not self.stop.is_set():
                request = Request(label, self.world.owner(), TTL)
                grant = drive(self.engine.acquire(request))
                assert isinstance(grant, Grant), "nobody else asks for this name"
                assert drive(self.engine.renew([grant])) != []
                assert drive(self.engine.release(grant)) is True
                self.turns += 1
        except BaseException as error:
            self.troubles.append(repr(error))

    def one(self) -> None:
        """Make one call of many; take back what came of it, in peace, as the core would."""
        request = Request(self.moments.chance.choice(NAMES), self.world.owner(), TTL)
        line, strike, engine = queued(request), self.moments.strike, self.engine
        grant = strike("acquire", lambda: drive(engine.acquire(request)))
        verb = self.moments.chance.randrange(5)
        if verb == 0:
            signal = self.world.signal()
            strike("watch", lambda: drive(engine.watch(line, signal)))
            strike("queue", lambda: drive(engine.acquire(line)))
            strike("unwatch", lambda: drive(engine.unwatch(line)))
            drive(engine.unwatch(line))
        elif verb == 1:
            strike("inspect", lambda: drive(engine.inspect(request.name)))
        elif isinstance(grant, Grant):
            strike("renew", lambda: drive(engine.renew([grant])))
            strike("release", lambda: drive(engine.release(grant)))
        strike("withdraw", lambda: drive(engine.withdraw(line)))
        drive(engine.withdraw(line))

    def close(self) -> None:
        """Close it, and once more in peace."""
        self.moments.strike("close", lambda: drive(self.engine.close()))
        drive(self.engine.close())

    def left(self) -> dict[str, tuple[int, int]]:
        states = {name: drive(self.engine.inspect(name)) for name in NAMES}
        return {n: (len(s.holders), len(s.waiters)) for n, s in states.items()}


def main(url: str, seed: int, calls: int) -> None:
    attack = Attack(url, seed)
    holder = drive(attack.engine.acquire(Request("a", attack.world.owner(), TTL)))
    assert not isinstance(holder, Busy)
    first = Request("a", attack.world.owner(), TTL, queue=True)
    drive(attack.engine.watch(first, attack.world.signal()))  # from now on a thread listens
    drive(attack.engine.unwatch(first))
    threads = [threading.Thread(target=attack.work, args=(f"t{n}",), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(calls):
        attack.one()
    attack.stop.set()
    for thread in threads:
        thread.join(20)
    say(
        event="attacked",
        hits=attack.moments.hits,
        turns=attack.turns,
        stuck=sum(thread.is_alive() for thread in threads),
        troubles=attack.troubles,
        held=drive(attack.engine.release(holder)),
        left=attack.left(),
    )
    sys.stdin.readline()
    attack.close()
    del attack, holder
    gc.collect()
    say(
        event="closed",
        threads=[thread.name for thread in threading.enumerate()],
        files=[
            path
            for path in (_target(fd) for fd in os.listdir("/proc/self/fd"))
            if "locks.db" in path
        ],
    )


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
