"""Keep the mark of a file in a second file beside it, the sidecar, which ``flock`` locks.

Two slots hold the mark in turn, each with a checksum, and the valid one with the higher turn
counts. So if a power cut tears a slot while it is written, the other still has the former mark. The
sidecar is never renamed or truncated: processes that wait for its lock have it open.

While a reader has the highest mark, a second line of the slot has the mark of the writers. It is
not part of the first line because programs that know no readers read only that, and write no second
line.
"""

from __future__ import annotations

import errno
import json
import os
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from ...errors import Denied, EngineError, Misconfigured, Unavailable, Unsupported, UsageError
from ..fence import MarkPair

SLOT = 4096  # a page: no two slots share a disk block
LOOK_FIRST_S, LOOK_MAX_S = 0.0005, 0.02
REMOVED_MAX = 100
ENDING = ".fence"


class Mark(NamedTuple):
    """The content of a sidecar. ``mark`` is 0 before the first ``enter``."""

    mark: int = 0
    name: str = ""
    """The name of the lock whose fences these are; empty if unknown."""
    turn: int = 0
    raised: float = 0.0
    """When it was raised, by the wall clock: for ``forget`` only."""
    written: int | None = None
    """The mark of the writers, while a reader has the highest."""

    @property
    def pair(self) -> MarkPair:
        return MarkPair(self.mark, self.mark if self.written is None else self.written)

    def raise_to(self, pair: MarkPair, name: str) -> Mark:
        """Return the next mark of the sidecar."""
        written = pair.written if pair.written < pair.highest else None
        return Mark(pair.highest, name, self.turn + 1, time.time(), written)


def sidecar_of(path: str) -> str:
    """Return the path of a file's sidecar."""
    folder, file = os.path.split(path)
    return os.path.join(folder, f".{file}{ENDING}")


@contextmanager
def locked(path: str, timeout: float, *, create: bool = True) -> Generator[int | None, None, None]:
    """Open and lock the sidecar; yield its descriptor, or None if there is no sidecar."""
    descriptor = _lock(path, time.monotonic() + timeout, create)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            _unlock(descriptor)


def _lock(path: str, give_up: float, create: bool) -> int | None:
    fcntl = _fcntl()
    for _ in range(REMOVED_MAX):
        descriptor = _open(path, create)
        if descriptor is None:
            return None
        try:
            _wait(fcntl, descriptor, path, give_up)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed by ``forget`` while we waited: open a new one
    raise Unavailable(f"{path} is removed again and again; nothing happened")


def _open(path: str, create: bool) -> int | None:
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        if not create:
            return None
        raise Misconfigured(f"the folder of {path} does not exist; nothing happened") from None
    except OSError as error:
        raise mapped(error, path) from error


def _wait(fcntl: ModuleType, descriptor: int, path: str, give_up: float) -> None:
    pause = LOOK_FIRST_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise mapped(error, path) from error
        left = give_up - time.monotonic()
        if left <= 0:
            raise Unavailable(
                f"another process is busy with {path} and did not finish in time, nothing "
                "happened: it may be frozen in the middle, so wake or end it"
            )
        time.sleep(min(pause, left))
        pause = min(pause * 2, LOOK_MAX_S)


def _unlock(descriptor: int) -> None:
    """Unlock, then close: closing alone would not unlock it if a forked child has it open."""
    fcntl = _fcntl()
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def read(descriptor: int) -> Mark:
    """Return the mark of the valid slot with the higher turn; mark 0 of an empty sidecar."""
    data = os.pread(descriptor, 2 * SLOT, 0)
    slots = [_parsed(data[start : start + SLOT]) for start in (0, SLOT)]
    found = max((slot for slot in slots if slot is not None), default=None, key=lambda m: m.turn)
    if found is None:
        if data[:SLOT].strip(b"\x00"):  # else the first raise was cut short: no holder yet
            raise Misconfigured(
                "the file that holds the mark is damaged, so no fence can be judged: find out why, "
                "stop all holders, then reset the guard"
            )
        return Mark()
    return found


def write(descriptor: int, mark: Mark, durable: bool) -> None:
    """Write the mark into the slot that does not hold the present one."""
    first = mark._asdict()
    written = first.pop("written")
    line = _checked(first)
    if written is not None:
        line += _checked({"mark": mark.mark, "written": written})
    line = line.ljust(SLOT)
    if len(line) > SLOT:
        raise UsageError("the name of what is guarded is too long: a lock's has up to 512 bytes")
    os.pwrite(descriptor, line, SLOT * (mark.turn % 2))
    if durable:
        os.fsync(descriptor)


def _checked(content: dict[str, object]) -> bytes:
    text = json.dumps(content, ensure_ascii=True)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _parsed(slot: bytes) -> Mark | None:
    line, _, rest = slot.partition(b"\n")
    first, second = _content(line), _content(rest.partition(b"\n")[0])
    if first is None:
        return None
    found = Mark(**first)
    # A second line that is torn, or of another mark, is ignored: the mark is then taken for a
    # writer's, which refuses more readers than necessary and no fewer.
    if second is not None and second["mark"] == found.mark:
        return found._replace(written=second["written"])
    return found


def _content(line: bytes) -> dict[str, Any] | None:
    """Decode a line; None if its checksum is wrong."""
    check, _, text = line.partition(b" ")
    if check != f"{zlib.crc32(text):08x}".encode():
        return None
    content: dict[str, Any] = json.loads(text)
    return content


def mapped(error: OSError, path: str) -> EngineError:
    """Return our error for an error of the file system."""
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return Denied(f"we may not write {path}, which holds the mark; nothing happened: {error}")
    return Unavailable(f"the mark in {path} cannot be reached; nothing happened: {error}")


def _fcntl() -> ModuleType:
    try:
        import fcntl
    except ImportError:
        raise Unsupported("files are guarded by flock, which this system does not have") from None
    return fcntl
