"""The wire: transactions on one JSON file. Whatever blocks is here; nothing is decided here.

A transaction takes the flock of the folder, reads the file, lets the engine change what is in it,
replaces the file whole and lets go of the flock. The kernel frees the flock of a process that dies,
and a file is replaced in one system call: a crash neither blocks the others nor leaves a
transaction half done. The flock lasts for a moment, never for a lease.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fencelock.errors import Denied, EngineError, Misconfigured, Unavailable
from fencelock.world import World

T = TypeVar("T")

RETRY_S = 0.001


class File:
    """``locks.json`` in a folder, made and changed only under the folder's flock."""

    def __init__(self, folder: str, world: World, timeout: float) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "locks.json")
        self.world = world
        self.timeout = timeout

    def create_folder(self) -> None:
        """Make the folder; the file itself is made by the first transaction that changes it."""
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise mapped(error, self.folder) from error

    def transact(self, work: Callable[[dict[str, Any]], T]) -> T:
        """Run ``work`` on what is in the file while nobody else does, and keep its changes."""
        try:
            with self._flock():
                old = self._read()
                document: dict[str, Any] = json.loads(old)
                result = work(document)
                new = json.dumps(document)
                if new != old:
                    self._replace(new)
                return result
        except OSError as error:
            raise mapped(error, self.folder) from error

    @contextmanager
    def _flock(self) -> Iterator[None]:
        # The folder itself is locked: a lock file could be deleted under those who wait for it.
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            give_up = min(self.world.now() + self.timeout, self.world.limit())
            while not _try_flock(folder):  # its owner may be stopped in the middle of a transaction
                if self.world.now() >= give_up:
                    raise Unavailable(f"another process keeps {self.folder} busy; nothing happened")
                time.sleep(RETRY_S)
            yield
        finally:
            # A child forked meanwhile has a copy of the descriptor: closing ours is not enough.
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)

    def _read(self) -> str:
        try:
            with open(self.path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return "{}"

    def _replace(self, text: str) -> None:
        """Write the file anew. A transaction has happened once os.replace has, and not before."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(f"{self.path}.new", flags, 0o600)  # owner ids are secret
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # else a power cut can leave an empty file
        os.replace(f"{self.path}.new", self.path)


def _try_flock(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def absolute(path: str) -> str:
    """The path for the life of a client: a forked child may have another working folder."""
    return os.path.abspath(path)


def mapped(error: OSError, folder: str) -> EngineError:
    """Our error for one of the system's: the one table in which they are mapped.

    All of them come before os.replace has succeeded, so nothing has happened and there is no
    OutcomeUnknown. An engine that sends requests over a network needs it, for each one that was
    sent and not answered.
    """
    said = f"{folder}: {error.strerror or error}; nothing happened"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Denied(f"{said}. Give this user the right to write there")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return Misconfigured(f"{said}. The URL must name a folder")
    return Unavailable(said)
