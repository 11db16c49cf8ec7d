"""Read and replace one file under its guard.

The order makes a crash harmless. First the new content is written completely and synced to the
disk. Then, under the sidecar's lock: the mark is checked, raised and synced, and only then the new
content replaces the file. A crash in between leaves the old content under the new mark, the same
state as after ``enter``.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

from ...errors import OutcomeUnknown, UsageError
from ..fence import Claim, Fenced, MarkPair, check_age, claim
from .sidecar import ENDING, Mark, locked, mapped, read, sidecar_of, write

__all__ = ["FileGuard", "forget", "guarded_open", "guarded_replace"]

TIMEOUT_S = 10.0
_COPIES = {"a", "r+", "a+"}
_MODES = {"r", "w", "w+", *_COPIES}


class FileGuard:
    """Guards one file, which need not exist yet.

    Without ``name``, the fences of any lock are accepted; the first lease decides, and leases of
    another name are refused from then on. ``timeout`` is how long to wait for another process that
    is replacing the file. ``durable=False`` skips fsync: a power cut may then undo the last
    changes, though a crash of the process does not.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        epoch: int = 0,
        timeout: float = TIMEOUT_S,
        durable: bool = True,
    ) -> None:
        claim(1, name or "any", epoch)  # raises if the epoch is invalid
        self._path = os.path.realpath(path)  # so that all links to a file share its mark
        self._name, self._epoch = name, epoch
        self._timeout, self._durable = timeout, durable
        self._sidecar = sidecar_of(self._path)

    def enter(self, lease: Fenced | int, *, name: str | None = None, reading: bool = False) -> None:
        """Raise the mark at the start of a tenure, before the first read; or raise StaleFence.

        ``reading`` says of a bare fence that it is a read lock's; a lease says so itself.
        """
        with self._admitted(self._claim(lease, name, reading)):
            pass

    def replace(self, data: bytes | str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Replace the content of the file; text is written as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        with self.open("wb", lease, name=name) as file:
            file.write(content)

    @contextmanager
    def open(
        self,
        mode: str,
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
        **options: Any,
    ) -> Generator[IO[Any], None, None]:
        """Open the file as ``open`` does, with ``encoding`` and the like.

        Reading raises the mark first. What is written becomes the file's content at the end of the
        block, if the fence is not stale by then, and is dropped if the block raises.
        """
        kind = str(mode).replace("b", "").replace("t", "")  # a lease, if swapped
        if kind not in _MODES:
            raise UsageError(f"a guarded file is opened with one of {sorted(_MODES)}, not {mode!r}")
        theirs = self._claim(lease, name, reading)
        if kind == "r":
            with self._admitted(theirs):
                file = open(self._path, mode, **options)  # noqa: SIM115  # read outside the lock
            with file:
                yield file
            return
        theirs.to_write()
        with self._admitted(theirs):  # a stale fence is refused before the work is done
            if kind == "r+":
                os.stat(self._path)  # as with open(), the file must exist
            draft = self._draft(theirs, kind in _COPIES)
        try:
            with draft.open(mode, options) as file:
                yield file
            self._commit(draft, theirs)
        except BaseException:
            draft.discard()
            raise
        finally:
            draft.close()

    def mark(self, *, reading: bool = False) -> int:
        """Return the mark, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        with locked(self._sidecar, self._timeout, create=False) as sidecar:
            return 0 if sidecar is None else read(sidecar).pair.of(reading)

    def reset(self, to: int = 0) -> None:
        """Set the mark, even to a smaller fence than it has seen; 0 removes it.

        For a file whose lock has moved to another engine, or has another name now. Holders of an
        old lease are accepted again: stop them first, or give all guards a new epoch.
        """
        mark = claim(to, "any", self._epoch).mark if to != 0 else 0
        with locked(self._sidecar, self._timeout, create=bool(mark)) as sidecar:
            if sidecar is None:
                return
            if not mark:
                os.unlink(self._sidecar)
                return
            found = read(sidecar).raise_to(MarkPair(mark, mark), self._name or "")
            self._raise(sidecar, found, first=found.turn == 1)

    def _claim(self, lease: Fenced | int, name: str | None, reading: bool) -> Claim:
        given = name if name is not None else self._name
        if given is None and isinstance(lease, int):
            return claim(lease, self._path, self._epoch, reading, "files")._replace(name="")
        return claim(lease, given, self._epoch, reading, "files")

    def _draft(self, theirs: Claim, copy: bool) -> Draft:
        draft = Draft(self._path, theirs.mark)
        if copy:
            draft.copy()
        return draft

    @contextmanager
    def _admitted(self, theirs: Claim) -> Generator[None, None, None]:
        """Take the sidecar's lock, check the fence and raise the mark."""
        with locked(self._sidecar, self._timeout) as sidecar:
            assert sidecar is not None
            seen = read(sidecar)
            if theirs.name and seen.name and theirs.name != seen.name:
                raise UsageError(
                    f"{self._path} is guarded by the lock {seen.name!r}, whose fences say nothing "
                    f"about those of {theirs.name!r}: use that lock, or reset the guard"
                )
            named = theirs._replace(name=theirs.name or seen.name or self._path)
            pair = seen.pair.admit(named)
            if pair != seen.pair or (theirs.name and not seen.name):
                mark = seen.raise_to(pair, theirs.name or seen.name)
                self._raise(sidecar, mark, first=not seen.turn)
            yield

    def _raise(self, sidecar: int, mark: Mark, first: bool) -> None:
        try:
            write(sidecar, mark, self._durable)
            if first and self._durable:
                sync_folder(self._sidecar)
            remove_older(self._path, mark.mark)
        except OSError as error:
            raise mapped(error, self._sidecar) from error

    def _commit(self, draft: Draft, theirs: Claim) -> None:
        if self._durable:
            os.fsync(draft.descriptor)
        with self._admitted(theirs):
            draft.take_place()
            if self._durable:
                try:
                    sync_folder(self._path)
                except OSError as error:
                    raise OutcomeUnknown(
                        f"{self._path} has its new content, but the disk did not confirm it: a "
                        f"power cut may still undo that ({error})"
                    ) from error


def guarded_replace(
    path: str | os.PathLike[str],
    data: bytes | str,
    lease: Fenced | int,
    *,
    name: str | None = None,
    epoch: int = 0,
) -> None:
    """Replace the content of a file in one step, unless the fence is stale."""
    FileGuard(path, epoch=epoch).replace(data, lease, name=name)


@contextmanager
def guarded_open(
    path: str | os.PathLike[str],
    mode: str,
    lease: Fenced | int,
    *,
    name: str | None = None,
    epoch: int = 0,
    reading: bool = False,
    **options: Any,
) -> Generator[IO[Any], None, None]:
    """Open a file under the guard; see ``FileGuard.open``."""
    guard = FileGuard(path, epoch=epoch)
    with guard.open(mode, lease, name=name, reading=reading, **options) as file:
        yield file


def forget(folder: str | os.PathLike[str], older_than_seconds: float) -> int:
    """Remove the marks in a folder that were not raised for so many seconds; return how many.

    A holder that was frozen for longer than that is then accepted again: choose days, not minutes.
    The time is that of this machine's clock.
    """
    seconds = check_age(older_than_seconds)
    with os.scandir(folder) as entries:
        found = [e.path for e in entries if e.name.startswith(".") and e.name.endswith(ENDING)]
    return sum(_forget(path, seconds) for path in found)


def _forget(path: str, seconds: float) -> int:
    with locked(path, TIMEOUT_S, create=False) as sidecar:
        if sidecar is None or time.time() - read(sidecar).raised < seconds:
            return 0
        os.unlink(path)
        return 1


_ENDING = ".draft"


class Draft:
    """New content of a file, written beside it and then renamed over it.

    Its name says of which mark it is. So when the mark rises, drafts of older ones, whose writers
    died or are shut out, can be told and removed.
    """

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
