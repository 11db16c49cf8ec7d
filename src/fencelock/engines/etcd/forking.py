"""Forks and gRPC: a fork waits for the calls that are under way, or its child does without.

gRPC can live through a fork, but only if no thread is inside it at that moment; a child that uses
it all the same hangs, and takes events from its parent's connections. So calls of the blocking wire
pass a gate that a fork closes for as long as it takes. Under asyncio a thread of gRPC's own is
always inside: there is nothing to wait for, and the child is told so when it connects.
"""

from __future__ import annotations

import os
import threading
from time import monotonic

from ...errors import Unsupported

WAIT_S = 2.0  # calls take about a millisecond; one that hangs must not stop a fork for ever


class _Fork:
    """One fork that is about to happen."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.left = threading.Event()
        """Set whenever somebody has gone out, or has not gone in."""


class Gate:
    """Knows who is inside, and lets a fork wait until nobody is.

    Going in and out takes no lock, because every call does it and forks are rare. Whoever goes in
    first says so and then looks for a fork; a fork first shows itself and then looks who is inside.
    So at least one of the two sees the other.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # of forks among themselves
        self.inside: set[object] = set()
        """A mark for each call that is under way."""
        self.fork: _Fork | None = None
        self._empty = True
        """What the last fork found."""
        self._always_inside = False
        self.spoiled = False
        """This process is the child of a fork that did not find gRPC empty."""

    def enter(self, visit: object) -> None:
        """Go in, after a fork if there is one. Whatever ends this, ``leave`` puts it right."""
        self.inside.add(visit)
        while (fork := self.fork) is not None:
            self.leave(visit)
            fork.over.wait()
            self.inside.add(visit)

    def leave(self, visit: object) -> None:
        self.inside.discard(visit)
        if (fork := self.fork) is not None:
            fork.left.set()

    def stay(self) -> None:
        """Somebody is inside from now on for as long as the process lives."""
        self._always_inside = True

    def before_fork(self) -> None:
        self._mutex.acquire()
        self.fork = fork = _Fork()
        end = monotonic() + WAIT_S
        while not self._always_inside and self.inside and (left := end - monotonic()) > 0:
            fork.left.wait(left)
            fork.left.clear()
        self._empty = not self.inside

    def after_in_parent(self) -> None:
        self._open()
        self._mutex.release()

    def after_in_child(self) -> None:
        self.spoiled = self.spoiled or self._always_inside or not self._empty
        self._mutex = threading.Lock()
        self.inside = set()
        self.fork = None

    def _open(self) -> None:
        fork, self.fork = self.fork, None
        if fork is not None:
            fork.over.set()

    def check(self) -> None:
        """Raise in a process in which gRPC cannot be used."""
        if self.spoiled:
            raise Unsupported(
                "etcd cannot be reached from this process: it was forked while its parent used "
                "gRPC, which does not survive that. Nothing happened. Start processes by spawn or "
                "forkserver, or fork before the parent connects"
            )


gate = Gate()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: gate.before_fork(),
        after_in_parent=lambda: gate.after_in_parent(),
        after_in_child=lambda: gate.after_in_child(),
    )
