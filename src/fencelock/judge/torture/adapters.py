"""The interface of every library that is tortured, so that each does the same work.

An adapter returns a hold, or None when the lock could not be acquired in time, or raises:
``Failed`` when nothing happened, ``Doubt`` when it may have. The adapters of fencelock are here, in
both flavors; ``peers.py`` has those of other libraries.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from ... import aio, sync
from ...errors import EngineError, FencelockError, LeaseLost, NotAcquired, OutcomeUnknown
from ...model import READERS_MAX

T = TypeVar("T")

Flavor: TypeAlias = Literal["threads", "asyncio"]

WHO = "client"  # the key of a client's name in the metadata of a holder or waiter
OPEN_S = 60.0  # connecting through a broken network must end at some point


class Wish(NamedTuple):
    """The kind of lock that a client wants under a name: by default a mutex."""

    role: str = ""
    """semaphore, read or write, as in a history."""
    limit: int = 0
    """The limit of the semaphore."""

    @property
    def units(self) -> tuple[int, int]:
        """How many units it takes, and of how many, as in a history."""
        if self.role == "semaphore":
            return 1, self.limit
        if self.role:
            return (1 if self.role == "read" else READERS_MAX), READERS_MAX
        return 0, 0


MUTEX = Wish()


class Failed(Exception):
    """The call failed, and surely did nothing."""


class Doubt(Exception):
    """The call had no answer: it may have taken effect."""


class Hold(ABC):
    """A lock that was acquired."""

    fence: int = 0
    """0 if the library has none."""
    ttl: float = 0.0
    """For how many seconds the engine keeps the lock for a holder that sends nothing."""
    slot: int | None = None
    """Its slot of a semaphore."""
    until: float = 0.0
    """When it ends, on the clock that all processes share, if it is never renewed; else 0."""

    @abstractmethod
    def check(self) -> str:
        """Return why it no longer holds, as far as the library knows, or an empty string."""

    @abstractmethod
    def release(self) -> bool:
        """Release the lock; return False if it was no longer held."""

    def lost_at(self) -> float | None:
        """Return since when the holder could know that it is lost; None while it is not."""
        return None


class LockAdapter(ABC):
    """A client of one library."""

    fenced: ClassVar[bool] = False
    """Whether its holds carry a fence that a resource can check."""

    @abstractmethod
    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        """Wait for the lock."""

    def acquire_share(self, wish: Wish, name: str, ttl: float, timeout: float) -> Hold | None:
        """Wait for a share of a name that several may hold."""
        raise Failed(f"this library is tortured with mutexes only, and {wish.role} was asked for")

    @abstractmethod
    def close(self) -> None:
        """Close the connections to the engine."""

    def sweep(self, prefix: str) -> None:
        """Remove what is left of names with this prefix."""


class FencelockAdapter(LockAdapter):
    """fencelock, for blocking programs."""

    fenced = True

    def __init__(self, url: str, who: str = "") -> None:
        self.client = sync.connect(url)
        self.client.open()
        self._meta = {WHO: who}

    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        return self.acquire_share(MUTEX, name, ttl, timeout)

    def acquire_share(self, wish: Wish, name: str, ttl: float, timeout: float) -> Hold | None:
        lock = self.describe(wish, name, ttl, timeout)
        lease = _granted(lock.acquire)
        return None if lease is None else FencelockHold(lease, lease.release)

    def describe(self, wish: Wish, name: str, ttl: float, timeout: float) -> sync.Lock:
        """Return the lock to acquire; an engine without such a lock refuses it here."""
        client, meta = self.client, self._meta
        if wish.role == "semaphore":
            return client.semaphore(name, limit=wish.limit, ttl=ttl, timeout=timeout, meta=meta)
        if wish.role:
            both = client.rwlock(name, ttl=ttl, timeout=timeout, meta=meta)
            return both.read() if wish.role == "read" else both.write()
        return client.lock(name, ttl=ttl, timeout=timeout, meta=meta)

    def close(self) -> None:
        self.client.close()

    def sweep(self, prefix: str) -> None:
        try:
            for holding in self.client.scan(prefix):
                self.client.revoke(holding.name, "the torture is over")
        except FencelockError:
            pass  # an engine that cannot do it lets what is left expire


class FencelockAsyncAdapter(LockAdapter):
    """fencelock, for asyncio: in an event loop that runs in a thread of its own."""

    fenced = True

    def __init__(self, url: str, who: str = "") -> None:
        self._meta = {WHO: who}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._client = self.run(_connected(url), OPEN_S)
        except BaseException:
            self._end()
            raise

    def run(self, work: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """Run a coroutine in the loop, and wait for its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        return self.acquire_share(MUTEX, name, ttl, timeout)

    def acquire_share(self, wish: Wish, name: str, ttl: float, timeout: float) -> Hold | None:
        lock = self._describe(wish, name, ttl, timeout)
        lease = _granted(lambda: self.run(lock.acquire()))
        if lease is None:
            return None
        return FencelockHold(lease, lambda: self.run(lease.release()))

    def _describe(self, wish: Wish, name: str, ttl: float, timeout: float) -> aio.Lock:
        client, meta = self._client, self._meta
        if wish.role == "semaphore":
            return client.semaphore(name, limit=wish.limit, ttl=ttl, timeout=timeout, meta=meta)
        if wish.role:
            both = client.rwlock(name, ttl=ttl, timeout=timeout, meta=meta)
            return both.read() if wish.role == "read" else both.write()
        return client.lock(name, ttl=ttl, timeout=timeout, meta=meta)

    def close(self) -> None:
        self.run(self._client.close())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(OPEN_S)
        self._loop.close()


class FencelockHold(Hold):
    """A lease of either flavor."""

    def __init__(self, lease: sync.Lease | aio.Lease, release: Callable[[], bool]) -> None:
        self._lease = lease
        self._release = release
        self.fence = lease.fence
        self.ttl = lease.ttl
        self.slot = lease.slot

    def check(self) -> str:
        try:
            self._lease.check()
        except LeaseLost as loss:
            return loss.reason or str(loss)
        return ""

    def lost_at(self) -> float | None:
        """Return the end of the lease by its own clock: a check after that moment reported it."""
        if not self._lease.lost.is_set():
            return None
        return self._lease._hold.valid_until()  # pyright: ignore[reportPrivateUsage]

    def release(self) -> bool:
        try:
            return self._release()
        except (OutcomeUnknown, EngineError) as error:
            raise Doubt(str(error)) from error


def _granted(acquire: Callable[[], T]) -> T | None:
    """Return the lease, or None if not acquired in time; raise ``Failed`` or ``Doubt`` else."""
    try:
        return acquire()
    except NotAcquired:
        return None
    except FencelockError as error:
        kind = Doubt if error.may_have_happened else Failed
        raise kind(str(error)) from error


async def _connected(url: str) -> aio.Client:
    return await aio.connect(url)
