"""Base of both real worlds: the clocks, randomness and identity of this process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from . import clock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_forks: list[None] = []
"""One entry for each fork that led to this process."""
_owners: list[str] = []  # made by the hundred: a system call for each would cost more
_randoms: list[float] = []  # likewise
OWNERS = 128


def _in_child() -> None:
    _forks.append(None)
    _owners.clear()  # they are the parent's to use
    _randoms.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

_HOST = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


class HostWorld:
    """Identity, time and randomness of the process we run in."""

    def admit(self) -> None:
        """Do nothing: every thread of this process may use this world."""

    def __init__(self) -> None:
        # Bound once: they are called on every step.
        self.now = clock.now
        self.generation = _forks.__len__

    def unbound(self) -> None:
        """Do nothing: a block ends itself where no exception comes between two bytecodes."""

    def stalls(self) -> str:
        return ""

    def wall_us(self) -> int:
        return clock.wall_us()

    def random(self) -> float:
        try:
            return _randoms.pop()
        except IndexError:
            bits = os.urandom(4 * OWNERS)
            _randoms.extend(
                int.from_bytes(bits[at : at + 4], "big") / 2**32 for at in range(4, len(bits), 4)
            )
            return int.from_bytes(bits[:4], "big") / 2**32

    def owner(self) -> str:
        try:
            return _owners.pop()
        except IndexError:
            mine, *others = os.urandom(16 * OWNERS).hex(" ", 16).split()
            _owners.extend(others)
            return mine

    def mutex(self) -> AbstractContextManager[object]:
        return threading.RLock()  # a signal handler may come while its own thread has it

    def identity(self) -> dict[str, str | int | float | bool | None]:
        return {"host": _HOST, "pid": os.getpid()}
