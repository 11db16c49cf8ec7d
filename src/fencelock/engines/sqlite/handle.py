"""The open file: one connection, shared by the threads of a client under a mutex.

It runs reads, single statements and short transactions, waits for a file that another process keeps
busy, and notices when the file was removed or replaced. It knows nothing about locks.

The keeper's renewals share the connection: SQLite has one writer at a time anyway, so a connection
of their own would gain them nothing.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import Unavailable
from .file import mapped, open_file
from .pin import Pin

T = TypeVar("T")

TRUST_S = 0.1  # how long to believe that the path still leads to the file we opened
PAUSE_MIN_S, PAUSE_MAX_S = 0.00005, 0.005  # SQLite's own waiting begins at a whole millisecond


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

    def open(self, now: float) -> None:
        """Open the file, making it if need be."""
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

    def alone(self, now: float, sql: str, parameters: tuple[object, ...]) -> bool:
        """Run one statement as a transaction; False when it changed nothing or the file is busy."""
        with self._mutex:
            try:
                return self._ready(now).execute(sql, parameters).rowcount == 1
            except sqlite3.Error as error:
                if _is_busy(error):
                    return False
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
        self._trusted_until = now + TRUST_S
        try:
            status = os.stat(self.path)
            if (status.st_dev, status.st_ino) == self._identity:
                return connection
        except FileNotFoundError:
            pass
        return self._open(now)

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
