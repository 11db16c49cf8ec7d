"""Write new content of a file beside it, and rename it over the file.

A draft's name says of which mark it is. So when the mark rises, drafts of older ones, whose writers
died or are shut out, can be told and removed.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import IO, Any

_ENDING = ".draft"


class Draft:
    """One draft, open for writing."""

    def __init__(self, path: str, mark: int) -> None:
        self._target = path
        self.path = f"{_stem(path)}{mark:019}.{os.urandom(6).hex()}{_ENDING}"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            self._like_the_target(descriptor)
        except BaseException:
            os.close(descriptor)
            self.discard()
            raise
        self.descriptor = descriptor

    def _like_the_target(self, descriptor: int) -> None:
        try:
            mode = stat.S_IMODE(os.stat(self._target).st_mode)
        except FileNotFoundError:
            return
        os.fchmod(descriptor, mode)

    def copy(self) -> None:
        """Begin with what the file holds now, where it exists."""
        try:
            with (
                open(self._target, "rb") as source,
                open(self.descriptor, "wb", closefd=False) as sink,
            ):
                shutil.copyfileobj(source, sink)
            os.lseek(self.descriptor, 0, os.SEEK_SET)
        except FileNotFoundError:
            pass

    def open(self, mode: str, options: dict[str, Any]) -> IO[Any]:
        """The draft as a file; closing that leaves the draft's own descriptor open."""
        return open(self.descriptor, mode, closefd=False, **options)

    def take_place(self) -> None:
        """Become the file, in one step."""
        os.replace(self.path, self._target)

    def close(self) -> None:
        os.close(self.descriptor)

    def discard(self) -> None:
        """Leave nothing behind."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


def remove_older(path: str, mark: int) -> None:
    """Remove the drafts of a file that belong to smaller marks: none of them can be used."""
    folder, stem = os.path.split(_stem(path))
    with os.scandir(folder) as entries:
        found = [e.name for e in entries if e.name.startswith(stem) and e.name.endswith(_ENDING)]
    for name in found:
        number = name[len(stem) :].partition(".")[0]
        if number.isdecimal() and int(number) < mark:
            try:
                os.unlink(os.path.join(folder, name))
            except OSError:
                pass  # another day: it is only in the way


def sync_folder(path: str) -> None:
    """Have the names in the folder of a file reach the disk."""
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stem(path: str) -> str:
    folder, file = os.path.split(path)
    return os.path.join(folder, f".{file}.")
