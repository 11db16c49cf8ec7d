"""Waiting for sockets by ``poll``, or by ``select`` where a program has none.

eventlet takes ``poll`` away from those who use it: what would block the whole program must not be
there. Its ``select`` lets others run meanwhile.
"""

from __future__ import annotations

import select
from typing import Protocol

READABLE = 1  # POLLIN, which goes with poll
WRITABLE = 4


class Poll(Protocol):
    """What is used here of ``select.poll``."""

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, milliseconds: float | None = None, /) -> list[tuple[int, int]]: ...


class _Selecting:
    """The same by ``select``, for the descriptors of a small program."""

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
    """An empty one."""
    return select.poll() if hasattr(select, "poll") else _Selecting()


def wait_for(fd: int, mask: int, seconds: float) -> bool:
    """Wait once for one socket."""
    poll = new_poll()
    poll.register(fd, mask)
    return seconds > 0 and bool(poll.poll(seconds * 1000))
