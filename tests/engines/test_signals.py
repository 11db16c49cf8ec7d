"""An exception from a signal handler at any moment of a call leaves the client usable, and nothing
behind that is kept alive."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from itertools import count

import pytest

import fencelock
from fencelock import AcquireTimeout, Lease
from fencelock.engines import resolve
from fencelock.engines.memory import MemoryEngine
from fencelock.model import Grant, Request
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.engines.signal_injection import InjectedSignal, SignalInjection
from tests.servers.consul import Consul
from tests.servers.etcd import Etcd
from tests.servers.firestore import Firestore
from tests.servers.hazelcast import brief_sessions
from tests.servers.server import until
from tests.servers.shared import shared
from tests.servers.spanner import Spanner
from tests.servers.zookeeper import ZooKeeper

SOON = 20.0
TTL_S = 2.0
MOMENTS_MAX = 600  # of more, every second or third
_number: Iterator[int] = count()
ENGINES = ("consul", "etcd", "hazelcast", "zookeeper", "firestore", "spanner", "_google", "_http")
MEMORY = ("/engines/memory.py", "/engines/units.py")
PATHS = (
    *(f"/engines/{name}/" for name in ENGINES),
    *MEMORY,
    "/engines/lending_pool",
    "/wires/grpc/",
)
WHERE = {
    "memory": lambda: f"memory://signals-{next(_number)}",
    "consul": lambda: shared(Consul).fresh_url(),
    "etcd": lambda: f"{shared(Etcd).url}?prefix=signals-{next(_number)}/",
    "hazelcast": lambda: f"{shared(brief_sessions).fresh_url()}&request_timeout=20",
    "zookeeper": lambda: f"{shared(ZooKeeper).fresh_url()}?session=4",
    "firestore": lambda: shared(Firestore).fresh_url(),
    "spanner": lambda: shared(Spanner).fresh_url(),
}


class Case:
    """One client that signals interrupt, and another that looks."""

    def __init__(self, url: str) -> None:
        self.interrupted = fencelock.connect(url)
        self.other = fencelock.connect(url)
        self._numbers = count()

    def name(self) -> str:
        """One that was not used before."""
        return f"seat {next(self._numbers)}"

    def lease(self) -> Lease:
        return self.interrupted.lock(self.name(), ttl=TTL_S).acquire()

    def acquire(self) -> Callable[[], object]:
        lock = self.interrupted.lock(self.name(), ttl=TTL_S)
        return lambda: lock.acquire().release()

    def wait(self) -> Callable[[], object]:
        name = self.name()
        held = self.other.lock(name, ttl=60).acquire()

        def wait() -> None:
            with held:
                try:
                    self.interrupted.lock(name, ttl=TTL_S).acquire(timeout=0.02)
                except AcquireTimeout:
                    pass

        return wait

    def renew(self) -> Callable[[], object]:
        lease = self.lease()

        def renew() -> None:
            with lease:
                lease.renew()

        return renew

    def release(self) -> Callable[[], object]:
        return self.lease().release

    def see_usable(self) -> None:
        """No connection is left that nobody reads, no mutex that nobody holds."""
        lease = self.interrupted.lock(self.name(), ttl=60).try_acquire()
        assert lease is not None
        assert lease.release()

    def is_clean(self) -> bool:
        gc.collect()
        if self.other.traits.scan:
            return not self.other.scan("")
        used = range(int(self.name().removeprefix("seat ")))
        return not any(self.other.holders(f"seat {number}") for number in used)


@pytest.fixture(params=WHERE)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(WHERE[request.param]())
    yield case
    case.interrupted.close()
    case.other.close()


@pytest.mark.parametrize("what", ["acquire", "wait", "renew", "release"])
def test_a_signal_at_any_moment_leaves_the_client_usable_and_nothing_behind(
    case: Case, what: str
) -> None:
    make = getattr(case, what)
    make()()  # connected, and all is made that is made once
    work = make()
    with SignalInjection(PATHS) as quiet:
        work()
    assert quiet.moments > 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # leases that were dropped where the signal came
        for moment in range(1, quiet.moments + 1, 1 + quiet.moments // MOMENTS_MAX):
            work = make()
            try:
                with SignalInjection(PATHS, moment):
                    work()
            except InjectedSignal:
                pass
            del work
            case.see_usable()
        until(case.is_clean, "the last of the locks to be free", within=SOON)


def requests_of(name: str, *owners: str) -> list[Request]:
    return [Request(name, owner, 60.0, queue=True) for owner in owners]


def ask(engine: MemoryEngine, requests: list[Request]) -> list[Request]:
    """Those of these owners that hold, once each has asked."""
    return [one for one in requests if isinstance(drive(engine.acquire(one)), Grant)]


def test_a_signal_in_a_release_gives_a_name_of_memory_to_one_of_two_waiters() -> None:
    """Once to each: two at once would be two holders, and none at all a dead name."""
    url = f"memory://signals-{next(_number)}"
    with fencelock.connect(url) as client:
        engine = MemoryEngine(ThreadsWorld(), resolve(url, {})[1])

        def release(moment: int) -> int:
            name = f"name {moment}"
            lease = client.lock(name, ttl=60).acquire()
            waiters = requests_of(name, f"one {moment}", f"two {moment}")
            assert not ask(engine, waiters)
            injection = SignalInjection(MEMORY, moment)
            try:
                with injection:
                    lease.release()
            except InjectedSignal:
                pass
            while waiters:
                until(lambda: ask(engine, waiters), "a waiter to get the name", within=SOON)
                (holder,) = ask(engine, waiters)
                drive(engine.withdraw(holder))
                waiters.remove(holder)
            return injection.moments

        for moment in range(1, release(0) + 1):
            release(moment)


def test_a_signal_in_a_downgrade_lets_no_writer_in_beside_a_reader() -> None:
    url = f"memory://signals-{next(_number)}"
    with (
        fencelock.connect(url) as client,
        fencelock.connect(url) as other,
        fencelock.connect(url) as third,
    ):

        def downgrade(moment: int) -> int:
            books = client.rwlock(f"name {moment}", ttl=60).write().acquire()
            injection = SignalInjection(MEMORY, moment)
            try:
                with injection:
                    books.downgrade()
            except InjectedSignal:
                pass
            reading = other.rwlock(books.name, ttl=60).read().try_acquire()
            writing = third.rwlock(books.name, ttl=60).write()
            assert writing.try_acquire() is None
            books.release()
            if reading is not None:
                assert writing.try_acquire() is None
                reading.release()
            writer = writing.try_acquire()
            assert writer is not None
            writer.release()
            return injection.moments

        for moment in range(1, downgrade(0) + 1):
            downgrade(moment)
