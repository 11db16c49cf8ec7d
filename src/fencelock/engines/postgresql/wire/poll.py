"""Wait for sockets by ``poll``, or by ``select`` where a program has no ``poll``.

eventlet removes ``poll`` from the programs that use it, since it would block the whole program. Its
``select`` lets other green threads run meanwhile.
"""

from __future__ import annotations

import select
from typing import Protocol

READABLE = 1  # POLLIN, which is missing together with poll
WRITABLE = 4  # POLLOUT


class Poll(Protocol):
    """The part of ``select.poll`` that is used here."""

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]: ...


class _Selecting:
    """``Poll`` by ``select``, which takes low descriptors only: those of a small program."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def register(self, fd: int, eventmask: int, /) -> None:
        self._masks[fd] = eventmask

    def unregister(self, fd: int, /) -> None:
        del self._masks[fd]

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]:
        masks = dict(self._masks)
        reading = [fd for fd, mask in masks.items() if mask & READABLE]
        writing = [fd for fd, mask in masks.items() if mask & WRITABLE]
        seconds = None if milliseconds is None else milliseconds / 1000
        readable, writable, _ = select.select(reading, writing, [], seconds)
        return [*((fd, READABLE) for fd in readable), *((fd, WRITABLE) for fd in writable)]


def new_poll() -> Poll:
    """Return an empty ``Poll``."""
    return select.poll() if hasattr(select, "poll") else _Selecting()


def wait_for(fd: int, mask: int, seconds: float) -> bool:
    """Wait for one socket; return whether it is ready."""
    poll = new_poll()
    poll.register(fd, mask)
    return seconds > 0 and bool(poll.poll(seconds * 1000))
