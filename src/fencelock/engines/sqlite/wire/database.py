"""The open file: one connection, shared by the threads of a client under a mutex.

It runs reads, single statements and short transactions, waits for a file that another process keeps
busy, and notices when the file was removed or replaced. It knows nothing about locks.

The keeper's renewals share the connection: SQLite has one writer at a time anyway, so a connection
of their own would gain them nothing.

In the main thread a signal handler may raise between any two bytecodes, and again while the first
exception propagates. A transaction that stayed open would block the file for every process, and a
mutex that stayed locked every thread of this one. So both are ended by a single call into C that
nothing can come before:

* A transaction is the body of ``with connection``, whose ``__exit__`` is C and commits or rolls
  back; it begins inside that body.
* The mutex is acquired inside ``try`` and released at the very beginning of ``finally``. It is an
  RLock, because that refuses to be released by a thread that did not get as far as acquiring it.
* A connection that was opened but not assigned yet is closed by its own deallocation.

SQLite remembers for a whole process which locks it holds on a file, and a forked child inherits the
memory without the locks. So none of our threads is inside SQLite while the process forks, and a
child closes what it inherited before it opens the file itself.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ....errors import Unavailable, UsageError
from ....wires.live_set import LiveSet
from .file import mapped, open_file
from .wal_pin import WalPin

if TYPE_CHECKING:
    from threading import RLock

T = TypeVar("T")

TRUST_S = 0.1  # how long to believe that the path still leads to the file we opened
PAUSE_MIN_S, PAUSE_MAX_S = 0.00005, 0.005  # SQLite's own waiting begins at a whole millisecond
RETURNING = sqlite3.sqlite_version_info >= (3, 35)  # whether SQLite has the RETURNING clause
FORK_S = 1.0  # the longest that a fork waits for a transaction to end
MUTEX_S = 10.0  # the longest that a thread waits for the others of its client


class _Busy:
    """The result of a call that failed with SQLITE_BUSY: nothing has happened."""


_BUSY: Final = _Busy()

_databases = LiveSet()  # other threads construct some while it is read
_held_for_fork: list[RLock] = []  # the mutexes that are held while the process forks


class Database:
    """One SQLite file, open for reading and for short transactions."""

    _connection: sqlite3.Connection | None = None
    _pin: WalPin | None = None
    _pid = 0  # until __init__ has ended: a signal handler may raise before

    def __init__(
        self,
        path: str,
        request_timeout: float,
        clock: Callable[[], float],
        limit: Callable[[], float],
    ) -> None:
        self.path = path
        self._request_timeout = request_timeout
        self._clock = clock
        self._limit = limit
        self._mutex = threading.RLock()
        self._closed = False
        self._identity = (0, 0)
        self._trusted_until = 0.0
        self._pid = os.getpid()
        _databases.add(self)

    def open(self) -> None:
        """Open the file, making it if need be."""
        for database in _living():
            database.close_inherited()
        self._exclusive(self._open)

    def close(self) -> None:
        """Close the file; later calls raise Unavailable."""
        self._closed = True
        self._exclusive(self._shut)

    def read(self, now: float, sql: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Read rows without becoming the writer."""
        return self._retry_busy(now, self._read, sql, parameters)

    def _read(
        self, now: float, sql: str, parameters: tuple[object, ...]
    ) -> list[tuple[Any, ...]] | _Busy:
        try:
            return self._checked_connection(now).execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            if _is_busy(error):
                return _BUSY
            raise mapped(error, self.path) from error

    def read_nowait(self, sql: str) -> list[tuple[Any, ...]] | None:
        """Run a read that takes microseconds, without ever waiting; None where it would wait."""
        try:
            connection = self._connection
            if not self._mutex.acquire(blocking=False):
                return None
            if connection is None or connection is not self._connection or not self._is_same_file():
                return None
            return connection.execute(sql).fetchall()
        except (OSError, sqlite3.Error):
            return None
        finally:
            try:
                self._mutex.release()
            except RuntimeError:
                pass  # this thread did not have it

    def autocommit(self, now: float, sql: str, parameters: tuple[object, ...]) -> bool | None:
        """Run one statement as a transaction: False if it changes nothing, None on a busy file."""
        return self._exclusive(self._autocommit, now, sql, parameters)

    def _autocommit(self, now: float, sql: str, parameters: tuple[object, ...]) -> bool | None:
        try:
            return self._checked_connection(now).execute(sql, parameters).rowcount == 1
        except sqlite3.Error as error:
            if _is_busy(error):
                return None
            raise mapped(error, self.path, committing=True) from error

    def autocommit_returning(
        self, now: float, sql: str, parameters: tuple[object, ...]
    ) -> tuple[Any, ...] | bool | None:
        """Do the same with a statement that returns the row it changes (``RETURNING``)."""
        return self._exclusive(self._autocommit_returning, now, sql, parameters)

    def _autocommit_returning(
        self, now: float, sql: str, parameters: tuple[object, ...]
    ) -> tuple[Any, ...] | bool | None:
        try:
            rows = self._checked_connection(now).execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            if _is_busy(error):
                return None
            raise mapped(error, self.path, committing=True) from error
        row: tuple[Any, ...] | bool = rows[0] if rows else False
        return row

    def transaction(self, now: float, body: Callable[[float], T]) -> T:
        """Run ``body(now)`` as one transaction."""
        result: T = self._retry_busy(now, self._transaction, body)
        return result

    def _transaction(self, now: float, body: Callable[[float], T]) -> T | _Busy:
        committing = False
        try:
            with self._checked_connection(now) as connection:
                connection.execute("BEGIN IMMEDIATE")
                result = body(now)
                committing = True
            return result
        except sqlite3.Error as error:
            if _is_busy(error) and not committing:
                return _BUSY
            raise mapped(error, self.path, committing) from error

    def _retry_busy(self, now: float, attempt: Callable[..., T | _Busy], *arguments: object) -> T:
        """Try again while the file is busy, without keeping our own threads out meanwhile."""
        give_up, pause = 0.0, PAUSE_MIN_S
        while True:
            answer = self._exclusive(attempt, now, *arguments)
            if not isinstance(answer, _Busy):
                return answer
            now = self._clock()
            give_up = give_up or min(now + self._request_timeout, self._limit())
            if now >= give_up:
                raise Unavailable(
                    f"{self.path} was kept busy by another process for as long as this request "
                    f"could wait (request_timeout is {self._request_timeout:g} s); nothing "
                    "happened. See whether a process is stopped inside a transaction"
                )
            time.sleep(min(pause, give_up - now))
            pause = min(pause * 2, PAUSE_MAX_S)

    def _exclusive(self, call: Callable[..., T], *arguments: object) -> T:
        """Make a call under the mutex."""
        try:
            if not self._mutex.acquire(blocking=False):
                self._wait_for_mutex()
            connection = self._connection
            if connection is not None and connection.in_transaction:
                raise UsageError(
                    "a signal handler (or a finalizer) used a client while the same thread was in "
                    f"the middle of a request to {self.path}; nothing happened. Let the handler "
                    "set a flag, and use the client when the request has returned"
                )
            return call(*arguments)
        finally:
            try:
                self._mutex.release()
            except RuntimeError:
                pass  # the wait for it was cut short: this thread does not have it

    def _wait_for_mutex(self) -> None:
        """Wait for the mutex while another thread of this client uses the file."""
        seconds = max(0.0, min(MUTEX_S, self._limit() - self._clock()))
        if not self._mutex.acquire(timeout=seconds):
            raise Unavailable(
                f"{self.path} was kept busy by other threads of this client for {seconds:.1f} s; "
                "nothing happened. See whether its disk is slow"
            )

    def _checked_connection(self, now: float) -> sqlite3.Connection:
        """Return the connection, reopened if the file was removed or replaced since."""
        connection = self._connection
        if connection is not None and now < self._trusted_until:
            return connection
        if self._closed:
            raise Unavailable(f"{self.path} is closed")
        try:
            if connection is not None and self._is_same_file():
                self._trusted_until = now + TRUST_S
                return connection
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be reached: {error.strerror}") from error
        return self._open()  # a file that is gone is not trusted again, even if this fails

    def _is_same_file(self) -> bool:
        """Return whether the path still leads to the file we opened."""
        status = os.stat(self.path)
        return (status.st_dev, status.st_ino) == self._identity

    def _open(self) -> sqlite3.Connection:
        timeout = max(0.0, self._limit() - self._clock())
        connection = open_file(self.path, self._clock, timeout)
        try:
            pin = WalPin(self.path, connection)
            status = os.stat(self.path)
        except OSError as error:
            connection.close()
            raise Unavailable(f"{self.path} cannot be used: {error.strerror}") from error
        self._shut()
        self._identity = (status.st_dev, status.st_ino)
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._connection, self._pin = connection, pin  # last: until then the next call opens anew
        return connection

    def _shut(self) -> None:
        connection, self._connection = self._connection, None
        pin, self._pin = self._pin, None
        if pin is not None:
            pin.release()
        if connection is not None:
            connection.close()
        if pin is not None:
            pin.close()

    def close_inherited(self) -> None:
        """Close what a forked child inherited, without unpinning the file of the parent."""
        if self._pid == os.getpid():
            return
        connection, self._connection = self._connection, None
        pin, self._pin = self._pin, None
        self._closed = True
        if connection is not None:
            connection.close()
        if pin is not None:
            pin.close()

    def hold_for_fork(self) -> None:
        """Keep all threads out of SQLite while the process forks."""
        _held_for_fork.append(self._mutex)  # first: whatever interrupts us, it is released
        self._mutex.acquire(timeout=FORK_S)

    def __del__(self) -> None:
        if os.getpid() == self._pid:  # a forked child must not unpin the file of its parent
            self._shut()


def _living() -> list[Database]:
    return cast("list[Database]", _databases.living())


def _is_busy(error: sqlite3.Error) -> bool:
    return str(error.sqlite_errorname).startswith("SQLITE_BUSY")


def _before_fork() -> None:
    for database in _living():
        database.hold_for_fork()


def _after_fork() -> None:
    while _held_for_fork:
        try:
            _held_for_fork.pop().release()
        except RuntimeError:
            pass  # it was not acquired in time


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
