"""The open file: one connection, shared by the threads of a client under a mutex.

It runs reads, single statements and short transactions, waits for a file that another process keeps
busy, and notices when the file was removed or replaced. It knows nothing about locks.

The keeper's renewals share the connection: SQLite has one writer at a time anyway, so a connection
of their own would gain them nothing.

SQLite remembers for a whole process which locks it holds on a file, and a forked child inherits the
memory without the locks. So nobody of ours is inside SQLite while the process forks, and a child
closes what it inherited before it opens the file itself.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import Unavailable
from .file import mapped, open_file
from .pin import Pin

T = TypeVar("T")

TRUST_S = 0.1  # how long to believe that the path still leads to the file we opened
PAUSE_MIN_S, PAUSE_MAX_S = 0.00005, 0.005  # SQLite's own waiting begins at a whole millisecond
FORK_S = 1.0  # the longest that a fork waits for a transaction to end

_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_quiet: list[threading.Lock] = []  # the mutexes that are held while the process forks


class Handle:
    """One SQLite file, open for reading and for short transactions."""

    def __init__(self, path: str, patience: float) -> None:
        self.path = path
        self._patience = patience
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pin: Pin | None = None
        self._identity = (0, 0)
        self._trusted_until = 0.0
        self._pid = os.getpid()
        _handles.add(self)

    def open(self, now: float) -> None:
        """Open the file, making it if need be."""
        for handle in list(_handles):
            handle.disown()
        with self._mutex:
            self._open(now)

    def _open(self, now: float) -> sqlite3.Connection:
        connection = open_file(self.path, now)
        try:
            pin = Pin(self.path, connection)
            status = os.stat(self.path)
        except OSError as error:
            connection.close()
            raise Unavailable(f"{self.path} cannot be used: {error.strerror}") from error
        self._shut()
        self._identity = (status.st_dev, status.st_ino)
        self._connection, self._pin = connection, pin
        self.execute = connection.execute
        self.executemany = connection.executemany
        return connection

    def _shut(self) -> None:
        if self._pin is not None:
            self._pin.release()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._pin is not None:
            self._pin.close()
            self._pin = None

    def close(self) -> None:
        """Close the file; later calls say so."""
        with self._mutex:
            self._shut()

    def hush(self) -> threading.Lock | None:
        """Keep all threads out of SQLite until the returned mutex is released."""
        return self._mutex if self._mutex.acquire(timeout=FORK_S) else None

    def disown(self) -> None:
        """In a forked child: close what was inherited, without unpinning the file of the parent."""
        if self._pid == os.getpid():
            return
        with self._mutex:
            connection, self._connection = self._connection, None
            pin, self._pin = self._pin, None
            if connection is not None:
                connection.close()
            if pin is not None:
                pin.close()

    def __del__(self) -> None:
        if os.getpid() == self._pid:  # a forked child must not unpin the file of its parent
            self._shut()

    def look(self, now: float, sql: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Read rows without taking the writer's place."""
        with self._mutex:
            try:
                return self._ready(now).execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise mapped(error, self.path) from error

    def glance(self, sql: str) -> list[tuple[Any, ...]] | None:
        """Read what takes microseconds, without ever waiting; None where that cannot be."""
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            if self._connection is None or not self._is_same():
                return None
            return self._connection.execute(sql).fetchall()
        except (OSError, sqlite3.Error):
            return None
        finally:
            self._mutex.release()

    def alone(self, now: float, sql: str, parameters: tuple[object, ...]) -> bool | None:
        """Run one statement as a transaction: False if it changed nothing, None without a turn."""
        with self._mutex:
            try:
                return self._ready(now).execute(sql, parameters).rowcount == 1
            except sqlite3.Error as error:
                if _is_busy(error):
                    return None
                raise mapped(error, self.path, committing=True) from error

    def transact(self, now: float, body: Callable[..., T], *arguments: object) -> T:
        """Run ``body(now, *arguments)`` as one transaction.

        A busy file is waited for without keeping our own threads out.
        """
        give_up = 0.0
        pause = PAUSE_MIN_S
        while True:
            with self._mutex:
                if self._begin(now):
                    return self._finish(now, body, arguments)
            clock = time.monotonic()
            give_up = give_up or clock + self._patience
            if clock >= give_up:
                raise Unavailable(
                    f"{self.path} was kept busy by another process for {self._patience:g} s; "
                    "nothing happened. See whether a process is stopped inside a transaction"
                )
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX_S)

    def _ready(self, now: float) -> sqlite3.Connection:
        """The connection, opened anew if the file was removed or replaced under us."""
        connection = self._connection
        if connection is None:
            raise Unavailable(f"{self.path} is closed")
        if now < self._trusted_until:
            return connection
        try:
            if self._is_same():
                self._trusted_until = now + TRUST_S
                return connection
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be reached: {error.strerror}") from error
        return self._open(now)  # a file that is gone is not trusted again, even if this fails

    def _is_same(self) -> bool:
        """Whether the path still leads to the file we opened."""
        status = os.stat(self.path)
        return (status.st_dev, status.st_ino) == self._identity

    def _begin(self, now: float) -> bool:
        try:
            self._ready(now).execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if _is_busy(error):
                return False
            raise mapped(error, self.path) from error
        return True

    def _finish(self, now: float, body: Callable[..., T], arguments: tuple[object, ...]) -> T:
        committing = False
        try:
            result = body(now, *arguments)
            committing = True
            self.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise mapped(error, self.path, committing) from error
            raise
        return result

    def _roll_back(self) -> None:
        assert self._connection is not None
        if self._connection.in_transaction:  # SQLite may have rolled back by itself
            try:
                self.execute("ROLLBACK")
            except sqlite3.Error:
                pass  # nothing was committed, and the error that brought us here says more


def _is_busy(error: sqlite3.Error) -> bool:
    return str(error.sqlite_errorname).startswith("SQLITE_BUSY")


def _before_fork() -> None:
    for handle in list(_handles):
        if (mutex := handle.hush()) is not None:
            _quiet.append(mutex)


def _after_fork() -> None:
    while _quiet:
        _quiet.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
