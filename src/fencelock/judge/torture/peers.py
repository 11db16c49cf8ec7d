"""Adapters of other libraries' locks, which show what a lock without a fence loses.

Each is used as its own documentation shows, with a ttl if it takes one, and checked before the
write if it can say whether it is still held. None of them has a fence: nothing can refuse a holder
that woke too late, so only the counter without a guard takes part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from glob import escape, glob
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ...errors import Misconfigured, UsageError
from ...worlds import clock
from .adapters import Doubt, Failed, FencelockAdapter, FencelockAsyncAdapter, Hold, LockAdapter

CHECKS_EVERY_S = 0.05  # how often they retry a lock that is held: the default is 0.1 s


class RedisAdapter(LockAdapter):
    """A library whose locks are keys of Redis."""

    def __init__(self, url: str, **options: object) -> None:
        redis: Any = import_module("redis")
        self._errors: Any = import_module("redis.exceptions")
        self._redis = redis.Redis.from_url(url, **options)

    def close(self) -> None:
        self._redis.close()

    def sweep(self, prefix: str) -> None:
        """Delete the keys that contain the prefix, which only this torture uses."""
        for key in self._redis.scan_iter(match=f"*{prefix}*"):
            self._redis.delete(key)


class RedisPy(RedisAdapter):
    """redis-py's Lock: ``SET NX PX``, no renewal unless the program extends it by hand."""

    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        """Acquire as its blocking acquire does, but note when the attempt that succeeded began."""
        lock = self._redis.lock(name, timeout=ttl, thread_local=False)
        give_up = clock.now() + timeout
        try:
            while True:
                asked_at = clock.now()
                if lock.acquire(blocking=False):
                    return RedisPyHold(lock, ttl, self._errors, asked_at + ttl)
                if clock.now() + CHECKS_EVERY_S > give_up:
                    return None
                time.sleep(CHECKS_EVERY_S)
        except self._errors.RedisError as error:
            raise Doubt(str(error)) from error


class RedisPyHold(Hold):
    """A lock of redis-py: it is not extended, so it ends at its ttl, and that is no loss."""

    def __init__(self, lock: Any, ttl: float, errors: Any, until: float) -> None:
        self._lock = lock
        self._errors = errors
        self.until = until
        self.ttl = ttl

    def check(self) -> str:
        try:
            return "" if self._lock.owned() else "the key is another's"
        except self._errors.RedisError as error:
            return f"it cannot be asked: {error}"

    def release(self) -> bool:
        try:
            self._lock.release()
        except self._errors.LockError:
            return False
        except self._errors.RedisError as error:
            raise Doubt(str(error)) from error
        return True


class PythonRedisLock(RedisAdapter):
    """python-redis-lock, with a ttl and with its thread that renews."""

    def __init__(self, url: str) -> None:
        super().__init__(url, socket_timeout=None)
        self._module: Any = import_module("redis_lock")

    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        whole = max(1, round(ttl))  # it takes whole seconds only
        lock = self._module.Lock(self._redis, name, expire=whole, auto_renewal=True)
        try:
            got = lock.acquire(timeout=min(whole, max(1, round(timeout))))  # it takes no more
        except self._errors.RedisError as error:
            raise Doubt(str(error)) from error
        return PythonRedisLockHold(lock, whole, self._errors, self._module) if got else None


class PythonRedisLockHold(Hold):
    """A lock of python-redis-lock."""

    def __init__(self, lock: Any, ttl: float, errors: Any, module: Any) -> None:
        self._lock = lock
        self._errors = errors
        self._module = module
        self.ttl = ttl

    def check(self) -> str:
        try:
            mine = self._lock.get_owner_id() == self._lock.id
        except self._errors.RedisError as error:
            return f"it cannot be asked: {error}"
        return "" if mine else "the key is another's"

    def release(self) -> bool:
        try:
            self._lock.release()
        except (self._module.NotAcquired, self._module.NotExpirable):
            return False
        except self._errors.RedisError as error:
            raise Doubt(str(error)) from error
        return True


class FileLock(LockAdapter):
    """filelock: the lock of the operating system on a file, which has no ttl."""

    def __init__(self, url: str) -> None:
        self._module: Any = import_module("filelock")
        self._base = url.partition("://")[2].partition("?")[0].removeprefix("/")

    def acquire(self, name: str, ttl: float, timeout: float) -> Hold | None:
        path = f"{self._base}.{name.replace('/', '_')}.lock"
        lock = self._module.FileLock(path, timeout=timeout, poll_interval=CHECKS_EVERY_S)
        try:
            lock.acquire()
        except self._module.Timeout:
            return None
        except OSError as error:
            raise Failed(str(error)) from error
        return FileLockHold(lock, ttl)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def sweep(self, prefix: str) -> None:
        for path in glob(f"{escape(self._base)}.{escape(prefix)}*.lock"):
            os.unlink(path)


class FileLockHold(Hold):
    """A file that is locked."""

    def __init__(self, lock: Any, ttl: float) -> None:
        self._lock = lock
        self.ttl = ttl

    def check(self) -> str:
        return "" if self._lock.is_locked else "it was given back"

    def release(self) -> bool:
        self._lock.release()
        return True


class Library(NamedTuple):
    """A library that can be tortured."""

    make: Callable[[str], LockAdapter]
    package: str
    """What must be importable."""
    schemes: tuple[str, ...]
    """The schemes of the URLs that it can use."""


PEERS: dict[str, Library] = {
    "redis-py": Library(RedisPy, "redis", ("redis", "rediss", "valkey")),
    "python-redis-lock": Library(PythonRedisLock, "redis_lock", ("redis", "rediss", "valkey")),
    "filelock": Library(FileLock, "filelock", ("sqlite",)),
}

OURS = "fencelock"


def check_library(name: str, scheme: str) -> None:
    """Refuse a library that is not known, not installed, or not for this engine."""
    if name not in PEERS:
        raise UsageError(f"there is no library {name!r} to compare; known: {', '.join(PEERS)}")
    peer = PEERS[name]
    if scheme not in peer.schemes:
        raise UsageError(f"{name} cannot use {scheme}://: it needs {peer.schemes[0]}://")
    if find_spec(peer.package) is None:
        raise Misconfigured(f"{name} is not installed: pip install {name_on_index(name)}")


def name_on_index(name: str) -> str:
    """Return the name under which a library is on the package index."""
    return "redis" if name == "redis-py" else name


def open_adapter(library: str, url: str, flavor: str = "threads", who: str = "") -> LockAdapter:
    """Open a client of a library."""
    if library == OURS:
        return (
            FencelockAsyncAdapter(url, who) if flavor == "asyncio" else FencelockAdapter(url, who)
        )
    scheme, _, rest = url.partition("://")
    return PEERS[library].make(f"redis://{rest}" if scheme == "valkey" else url)
