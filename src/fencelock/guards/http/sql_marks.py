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

    ``connect`` gives a new connection of a blocking driver, outside of autocommit; with sqlite3 it
    needs ``check_same_thread=False``. Connections are kept and used again, each by one request at a
    time. The table is made by ``create()``, or by a migration with ``guard.schema()``.
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
        """What goes up when the locks move to another engine."""
        return self.guard.epoch

    def create(self) -> None:
        """Make the table if it is not there."""
        with self._connection() as connection:
            self.guard.create(connection)

    def enter(self, lease: Fenced | int, *, name: str | None = None, reading: bool = False) -> None:
        """Raise the mark, or raise StaleFence."""
        claim(lease, name, reading=reading)  # before a connection is made for it
        with self._connection() as connection:
            self.guard.enter(connection, lease, name, reading=reading)

    def mark(self, name: str, *, reading: bool = False) -> int:
        """The mark of a name, in epoch 0 the highest fence that was seen; 0 when there is none.

        With ``reading``, that of the writers, which a reader must not be below.
        """
        with self._connection() as connection:
            found: int = self.guard.mark(connection, name, reading=reading)
        return found

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, also to a smaller fence than it has seen."""
        with self._connection() as connection:
            self.guard.reset(connection, name, to)

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that nobody has raised for so many seconds; say how many."""
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
        """A transaction: committed at the end, rolled back by an error."""
        connection = self._take()
        try:
            yield connection
        except FencelockError as error:
            if isinstance(error, (Unavailable, OutcomeUnknown)) or not _rolled_back(connection):
                _drop(connection)
            else:
                self._give(connection)
            raise
        except Exception as error:  # of the driver: busy, locked for too long, a deadlock
            _drop(connection)
            raise Unavailable(f"the marks cannot be had now, nothing happened: {error}") from error
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
                self._idle, self._pid = [], os.getpid()  # the parent's; a forked child has its own
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
