"""Keep the marks of a server in a database that all its processes share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ..fence import Fenced, claim
from ..sql import SqlGuard

__all__ = ["SqlMarks"]

IDLE_MAX = 16


class SqlMarks:
    """``SqlMarks(lambda: psycopg.connect("dbname=shop"))``.

    ``connect`` returns a new connection of a blocking driver, not in autocommit mode; with sqlite3
    it needs ``check_same_thread=False``. Connections are pooled, each for one request at a time.
    The table is created by ``create()``, or by a migration with ``guard.schema()``.
    """

    def __init__(
        self, connect: Callable[[], Any], *, table: str = "fencelock_marks", epoch: int = 0
    ) -> None:
        self.guard = SqlGuard(table, epoch)
        self._connect = connect
        self._idle: list[Any] = []
        self._turn = threading.Lock()
        self._pid = os.getpid()

    @property
    def epoch(self) -> int:
        """The epoch of the marks, which is incremented when the locks move to another engine."""
        return self.guard.epoch

    def create(self) -> None:
        """Create the table if it does not exist."""
        with self._connection() as connection:
            self.guard.create(connection)

    def enter(self, lease: Fenced | int, *, name: str | None = None, reading: bool = False) -> None:
        """Raise the mark, or raise StaleFence."""
        claim(lease, name, reading=reading)  # before a connection is made
        with self._connection() as connection:
            self.guard.enter(connection, lease, name, reading=reading)

    def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        with self._connection() as connection:
            found: int = self.guard.mark(connection, name, reading=reading)
        return found

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen."""
        with self._connection() as connection:
            self.guard.reset(connection, name, to)

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many."""
        with self._connection() as connection:
            count: int = self.guard.forget(connection, older_than_seconds)
        return count

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._turn:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Generator[Any, None, None]:
        """Lend a connection for one transaction: committed at the end, rolled back on an error."""
        connection = self._take()
        try:
            yield connection
        except FencelockError as error:
            if isinstance(error, (Unavailable, OutcomeUnknown)) or not _rolled_back(connection):
                _drop(connection)
            else:
                self._give(connection)
            raise
        except Exception as error:  # of the driver: busy, a lock timeout, a deadlock
            _drop(connection)
            raise Unavailable(f"the marks cannot be used now, nothing happened: {error}") from error
        except BaseException:
            _drop(connection)
            raise
        try:
            connection.commit()
        except Exception as error:
            _drop(connection)
            raise OutcomeUnknown(f"the database did not confirm the mark: {error}") from error
        self._give(connection)

    def _take(self) -> Any:
        with self._turn:
            if self._pid != os.getpid():
                self._idle, self._pid = [], os.getpid()  # a fork: those are the parent's
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except Exception as error:
            raise Unavailable(f"the marks cannot be reached, nothing happened: {error}") from error

    def _give(self, connection: Any) -> None:
        with self._turn:
            if len(self._idle) < IDLE_MAX and self._pid == os.getpid():
                self._idle.append(connection)
                return
        _drop(connection)


def _rolled_back(connection: Any) -> bool:
    try:
        connection.rollback()
    except Exception:
        return False
    return True


def _drop(connection: Any) -> None:
    try:
        connection.close()
    except Exception:
        pass  # it was broken before
