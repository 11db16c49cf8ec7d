"""Open the file of the embedded engine, and refuse a file that is not ours or cannot be trusted.

* A file that is no database, or another program's database, is recognized by its bytes and left
  untouched.
* Network file systems are refused: WAL needs memory that all processes share.
* A file that can be reached by two paths is refused: the WAL lies beside the path, so each path
  would have its own.
* ``synchronous=NORMAL`` is enough although the last commits may be lost when the machine dies:
  every holder dies with it, and the next fence is max(last + 1, wall clock in µs), so it does not
  go back either.
* Leases are timed on the boot clock, which starts again with the machine. So a row that was written
  in the future was written before the machine last started, and is deleted. Any other row may be of
  a live lease, and lasts until its ttl has passed. No boot id decides: containers have their own.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable

from ....errors import Denied, EngineError, Misconfigured, OutcomeUnknown, Unavailable
from .mounts import mounts, refuse_network, refuse_second_path

APPLICATION_ID = 0x464E434C  # "FNCL"
SCHEMA_VERSION = 1
ADDED_TABLE = "memos"  # if it is there, all tables are: they are made in one transaction
HEADER = b"SQLite format 3\x00"
CREATION_S = 5.0  # another process may be making the file at this very moment
FUTURE_S = 1.0  # clocks of one machine agree far better than this
TOLD_MAX_S = 8 * 86_400  # a revocation is kept for the longest ttl and a little more
FROM_THE_FUTURE = (
    "FROM locks WHERE name <> '' AND expires_at - ttl > ?",
    "FROM waiters WHERE seen_at > ?",
    f"FROM revoked WHERE until - {TOLD_MAX_S} > ?",
    "FROM shares WHERE expires_at - ttl > ?",
    "FROM share_waiters WHERE seen_at > ?",
)
MEMOS_FROM_THE_FUTURE = "FROM memos WHERE until - keep > ?"
KEEP_FROM_NOW_ON = "UPDATE memos SET until = ?1 + keep WHERE until - keep > ?1"


def open_file(path: str, clock: Callable[[], float], timeout: float) -> sqlite3.Connection:
    """Open the file, making it if need be; else raise an error of ours, with nothing changed."""
    mountinfo = mounts()
    refuse_network(path, mountinfo)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise Misconfigured(f"the folder {folder} does not exist: make it, or choose another path")
    _refuse_foreign(path)
    timeout = min(timeout, CREATION_S)
    try:
        connection = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:
            refuse_second_path(path, mountinfo)
            _prepare(connection, path, clock, timeout)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise mapped(error, path) from error
    return connection


def _prepare(
    connection: sqlite3.Connection, path: str, clock: Callable[[], float], timeout: float
) -> None:
    execute = connection.execute
    execute("PRAGMA trusted_schema=OFF")
    if execute("PRAGMA application_id").fetchone()[0] == 0:
        _create(connection, path)
    version = execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise Misconfigured(
            f"{path} has schema version {version} and this fencelock knows {SCHEMA_VERSION}: "
            "use the same release in all processes, or another file"
        )
    _use_wal(connection, timeout)
    execute("PRAGMA synchronous=NORMAL")
    execute("PRAGMA journal_size_limit=4194304")
    execute("PRAGMA cache_size=-200")  # the rows in use are few; the system caches the file anyway
    if execute("SELECT 1 FROM locks WHERE name=''").fetchone() is None:
        raise Misconfigured(f"{path} is damaged (no rows) and was left as it is: move it away")
    if execute("SELECT 1 FROM sqlite_master WHERE name=?", (ADDED_TABLE,)).fetchone() is None:
        _add_tables(connection)
    _end_earlier_boots(connection, clock)
    execute("PRAGMA busy_timeout=0")  # we wait for a busy file ourselves: SQLite's wait is coarse


def _use_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Turn WAL mode on. SQLite does not wait for a busy file here, so we wait for other processes
    that open a new file at this moment.
    """
    give_up = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up:
                raise
        time.sleep(0.005)


def _create(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in one transaction, so that the file is either empty or complete."""
    with connection:
        connection.execute("BEGIN EXCLUSIVE")
        if connection.execute("PRAGMA application_id").fetchone()[0] == 0:
            _remove_stale_index(path)
            _make_tables(connection)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _add_tables(connection: sqlite3.Connection) -> None:
    """Make the tables that a file of an earlier release lacks. That release, which may still be in
    use beside us, does not know these tables and is not disturbed by them.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        _make_tables(connection)


def _make_tables(connection: sqlite3.Connection) -> None:
    from pathlib import Path  # here: as a rule a file has its tables, and this is not needed

    from ..._sql.sections import composed

    for statement in composed(Path(__file__).parents[1] / "sql" / "schema.sql").values():
        connection.execute(statement)


def _remove_stale_index(path: str) -> None:
    """Unlink the WAL index of a file that was deleted while processes had it open.

    SQLite would take it for that of the new file. Nobody can have made one for the new file yet:
    that file is empty, and locked by us.
    """
    try:
        os.unlink(path + "-shm")
    except OSError:
        pass  # as a rule there is none


def _end_earlier_boots(connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
    """Delete the rows that were written before the machine last started, as far as that is certain.

    A lease was last extended at ``expires_at - ttl``. When that lies in the future, the boot clock
    has started again since. When it does not, the lease may be alive: it is left, and ends within
    its ttl. Remembered items outlast the start of the machine, and are kept for their full time
    again. A client that finds such rows has opened the file after the start of the machine, so one
    search is enough.
    """
    late = (clock() + FUTURE_S,)
    searched = (*FROM_THE_FUTURE, MEMOS_FROM_THE_FUTURE)
    if not any(connection.execute(f"SELECT 1 {rows}", late).fetchone() for rows in searched):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        late = (clock() + FUTURE_S,)  # nobody else writes now: any later row is of an earlier boot
        for rows in FROM_THE_FUTURE:
            connection.execute(f"DELETE {rows}", late)
        connection.execute(KEEP_FROM_NOW_ON, late)


def _refuse_foreign(path: str) -> None:
    """Refuse a file that is not ours, by its first bytes, before SQLite opens it."""
    give_up = time.monotonic() + 1.0
    while True:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
                raise Misconfigured(f"{path} is a directory or a device, no file: name a file")
            with open(path, "rb") as file:
                head = file.read(100)
        except FileNotFoundError:
            return
        except PermissionError as error:
            raise Denied(f"{path} cannot be read: {error.strerror}") from error
        except OSError as error:
            raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error
        if not head or (head.startswith(HEADER) and _application(head) == APPLICATION_ID):
            return
        if not os.path.exists(path + "-journal") or time.monotonic() > give_up:
            break
        time.sleep(0.01)  # another process is making it
    what = "another program's database" if head.startswith(HEADER) else "no database"
    raise Misconfigured(f"{path} is {what} and was left untouched: choose another path")


def _application(head: bytes) -> int:
    return int.from_bytes(head[68:72], "big")


def mapped(
    error: sqlite3.Error, path: str, committing: bool = False
) -> EngineError | OutcomeUnknown:
    """Map an error of SQLite to one of ours: this is the only table."""
    name = str(getattr(error, "sqlite_errorname", "") or "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(f"{path} is kept busy by another process ({error}); nothing happened")
    if name.startswith("SQLITE_FULL"):
        return Unavailable(f"the disk of {path} is full; nothing happened. Make room")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return Denied(
            f"{path} cannot be written ({error}): see that the file and its folder are writable "
            f"for {'this user' if sys.platform == 'win32' else f'uid {os.getuid()}'}"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
        return Misconfigured(f"{path} is damaged ({error}) and was left as it is: move it away")
    if name.startswith("SQLITE_IOERR") and committing:
        return OutcomeUnknown(f"{path}: the disk failed while writing ({error})")
    return Unavailable(f"{path} cannot be used now ({error}); nothing happened")


def absolute(path: str) -> str:
    """Return the file that a URL means: ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    It is resolved once, so that a later change of the working folder does not move the locks.
    """
    if "\0" in path:
        raise Misconfigured("the path of a sqlite:// URL contains a NUL character")
    return os.path.realpath(path[1:])
