"""Wait for sockets by ``poll``, or by ``select`` where a program has no ``poll``.

Windows has none. eventlet removes it from the programs that use it, since it would block the whole
program. Its ``select`` lets other green threads run meanwhile.
"""

from __future__ import annotations

import select
from typing import Protocol

READ, WRITE = 1, 4  # POLLIN and POLLOUT, which are missing together with poll


class Poll(Protocol):
    """The part of ``select.poll`` that is used here."""

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def modify(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]: ...


class _Select:
    """``Poll`` by ``select``, which takes low descriptors only: those of a small program."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def register(self, fd: int, eventmask: int, /) -> None:
        self._masks[fd] = eventmask

    modify = register

    def unregister(self, fd: int, /) -> None:
        del self._masks[fd]

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]:
        masks = dict(self._masks)  # another thread may register meanwhile
        reads = [fd for fd, mask in masks.items() if mask & READ]
        writes = [fd for fd, mask in masks.items() if mask & WRITE]
        seconds = None if milliseconds is None else max(0.0, milliseconds) / 1000
        found: dict[int, int] = {}
        ready = select.select(reads, writes, [], seconds)
        for fds, event in ((ready[0], READ), (ready[1], WRITE)):
            for fd in fds:
                found[fd] = found.get(fd, 0) | event
        return list(found.items())


def new_poll() -> Poll:
    """Return an empty ``Poll``."""
    return select.poll() if hasattr(select, "poll") else _Select()


def wait_for(fd: int, mask: int, seconds: float) -> bool:
    """Wait for one socket; return whether it is ready."""
    poll = new_poll()
    poll.register(fd, mask)
    return seconds > 0 and bool(poll.poll(seconds * 1000))
