"""What is measured: one class per contestant, each in a file of `contestants/`.

A contestant says which works it takes part in (`works`) and how to take its lock. Its class runs
in the harness, where `stage` starts what it needs; its instances, made from the place alone, are
pickled and run in child processes too. An engine of ours needs only a URL: see `ours.py`.

Contestants that need the same store, or none, are of one `field`: they are shown in one table, and
those with a `yardstick` are what the others are measured by. What a contestant of ours should reach
stands in its own `targets`, so that a work knows no contestant.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

EVERY = ""  # the field of who competes with all


class Lock:
    """One name, as one thread takes it."""

    joined_ns = 0
    """When the last wait stood in the queue for certain, on the monotonic clock; 0: unknown."""

    def acquire(self) -> int:
        """Wait for the lock and return its fence, or 0 where there is none."""
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError


class Held(NamedTuple):
    """One hold of a lock; times in nanoseconds, on the monotonic clock."""

    asked: int
    joined: int
    """When the wait stood in the queue for certain; 0: unknown."""
    got: int
    left: int
    """When it began to release."""
    fence: int


class Session:
    """What the threads of one process share."""

    def lock(self, name: str) -> Lock:
        raise NotImplementedError

    def semaphore(self, name: str, limit: int) -> Lock:
        """One of so many slots of a name."""
        raise NotImplementedError

    def reader(self, name: str) -> Lock:
        """A name, as one of those who read under it."""
        raise NotImplementedError

    def writer(self, name: str) -> Lock:
        """A name, as the one who writes under it."""
        raise NotImplementedError

    def candidate(self, name: str, ttl: float) -> Lock:
        """An election: to acquire it is to lead, to release it is to resign."""
        raise NotImplementedError

    def do_once(self, name: str, every: float, wall_s: float, work: Callable[[], None]) -> None:
        """Do work, unless somebody has done it in the window of which this is a moment."""
        raise NotImplementedError

    def take_turns(self, lock: Lock, ask: Callable[[int], int]) -> list[Held]:
        """Take and leave a lock again and again. `ask` is told how many turns there were, and says
        what time it is, or 0: that was the last one."""
        clock = time.monotonic_ns
        log: list[Held] = []
        while asked := ask(len(log)):
            lock.joined_ns = 0
            fence = lock.acquire()
            got, joined = clock(), lock.joined_ns
            left = clock()
            lock.release()
            log.append(Held(asked, joined, got, left, fence))
        return log

    def close(self) -> None:
        """Let go of what the session holds open."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Files(Session):
    """A file for each name, in one folder: what the peers of one machine do."""

    def __init__(self, folder: str, make: Callable[[str], Lock]) -> None:
        self._folder = folder
        self._make = make

    def lock(self, name: str) -> Lock:
        return self._make(os.path.join(self._folder, name))


class Spent(NamedTuple):
    """Seconds by the clock and of the processor."""

    wall: float
    cpu: float


class Target(NamedTuple):
    """What a contestant of ours should reach: printed beside the figure, never asserted."""

    key: str
    """A column of the work."""
    bound: Literal["at most", "at least"]
    limit: float
    versus: str = ""
    """The limit is a multiple of this contestant's figure."""


class Served(NamedTuple):
    """What a server has done so far, and for whom."""

    requests: int
    """Round trips that clients have begun."""
    connections: int
    """How many there are now."""
    listening: int = 0
    """How many of these only wait to be told something."""
    memory: int = 0
    """Bytes that its process uses now; 0: unknown."""
    waiting: int = 0
    """How many stand in its queues now, where it tells."""


class Gauge:
    """Looks at the server of a contestant, without counting itself; here: there is no server."""

    def look(self) -> Served | None:
        """What the server has done until now."""
        return None

    def close(self) -> None:
        """Let go of what it looks through."""

    def __enter__(self) -> Gauge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Contestant(ABC):
    """One way to take turns."""

    name: ClassVar[str]
    works: ClassVar[frozenset[str]]
    field: ClassVar[str] = "one machine"
    """Those it competes with: all that use the same store; or EVERY."""
    yardstick: ClassVar[frozenset[str]] = frozenset()
    """Works in which the others of its field are shown as multiples of it."""
    targets: ClassVar[Mapping[str, tuple[Target, ...]]] = {}
    """By work, what it should reach."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Modules without which it is skipped."""
    idle_s: ClassVar[float] = 4.0
    """How long waiters in one process are looked at: as long as what they do seldom takes."""

    def __init__(self, place: str) -> None:
        self.place = place

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here, or nothing."""
        absent = [module for module in cls.needs if find_spec(module) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        """Start what it needs and give its place: a folder of its own, or the URL of a server."""
        return _folder(folder)

    @abstractmethod
    def connect(self, *, traced: bool = False) -> Session:
        """Begin to use it in this process. A traced session tells when a wait joined the queue."""

    def gauge(self) -> Gauge:
        """A look at its server, from any process."""
        return Gauge()

    def time_pairs(self, counts: list[int]) -> list[Spent]:
        """Take and leave a free lock so many times; one figure for each batch."""
        with self.connect() as session:
            lock = session.lock("pair")
            return [_time(lock.acquire, lock.release, count) for count in counts]

    def wait_idly(self, name: str, count: int, observe: Callable[[], None]) -> None:
        """Let so many waiters stand before a held lock while `observe` looks on.

        They never get it: the process is ended afterward.
        """
        session = self.connect()
        for _ in range(count):
            lock = session.lock(name)
            threading.Thread(target=lock.acquire, daemon=True).start()
        observe()

    def import_line(self) -> str:
        """What a program writes to have it."""
        return "\n".join(f"import {module}" for module in self.needs) or "pass"

    def first_use(self) -> str:
        """A program that takes and leaves its first lock."""
        raise NotImplementedError


@contextmanager
def _folder(folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True)
    yield str(folder)


def _time(acquire: Callable[[], object], release: Callable[[], object], count: int) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        acquire()
        release()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)
