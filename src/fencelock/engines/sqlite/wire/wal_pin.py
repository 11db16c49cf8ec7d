"""A lock that keeps SQLite's WAL in place while we use it.

When a connection closes, SQLite takes an exclusive lock on the file to see whether it was the last
one, and if so removes the WAL. That relies on POSIX record locks, and a process loses all of those
on a file when *any* of its descriptors for that file is closed: by a back-up, by a checksum, by a
second client that reads the header. After that, another process that closes its connection would
remove the WAL that we use, and two processes would see two different files.

So each client pins the file with a lock of another kind on the same bytes, owned by an open file
description (Linux) and therefore indifferent to other descriptors. Where there are no such locks,
our connections are configured not to remove the WAL at all, which Python can do from 3.12 on.
"""

from __future__ import annotations

import io
import os
import sqlite3
import struct
import sys

if sys.platform == "linux":  # here: a finalizer at the end of a program cannot import any more
    import fcntl

_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510  # the bytes that SQLite's readers lock


class WalPin:
    """Keep the WAL of one file in place while this exists."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._file: io.FileIO | None = None  # it closes itself, whatever interrupts us
        if sys.platform == "linux":
            self._file = io.FileIO(path)
            self._lock(shared=True)
        elif sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)

    def _lock(self, shared: bool) -> None:
        if sys.platform == "linux" and self._file is not None and not self._file.closed:
            kind = fcntl.F_RDLCK if shared else fcntl.F_UNLCK
            flock = struct.pack("hhqqi", kind, os.SEEK_SET, _SHARED_FIRST, _SHARED_SIZE, 0)
            try:
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, flock)
            except OSError:
                pass  # a kernel or file system without such locks: as safe as SQLite by itself

    def release(self) -> None:
        """Let the last connection to close remove the WAL."""
        self._lock(shared=False)

    def close(self) -> None:
        """Close the descriptor; only after the connection is closed."""
        if self._file is not None:
            self._file.close()
