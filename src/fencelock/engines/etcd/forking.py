"""Forks and gRPC: a fork waits for the calls that are under way, or its child does without.

gRPC can live through a fork, but only if no thread is inside it at that moment; a child that uses
it all the same hangs, and takes events from its parent's connections. So calls of the blocking wire
pass a gate that a fork closes for as long as it takes. Under asyncio a thread of gRPC's own is
always inside: there is nothing to wait for, and the child is told so when it connects.
"""

from __future__ import annotations

import os
import threading

from ...errors import Unsupported

WAIT_S = 2.0  # calls take about a millisecond; one that hangs must not stop a fork for ever


class Gate:
    """Counts who is inside, and lets a fork wait until nobody is."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._forking = False
        self._always_inside = False
        self.spoiled = False
        """This process is the child of a fork that did not find gRPC empty."""

    def enter(self) -> None:
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    def stay(self) -> None:
        """Somebody is inside from now on for as long as the process lives."""
        self._always_inside = True

    def before_fork(self) -> None:
        self._changed.acquire()
        self._forking = True
        if not self._always_inside:
            self._changed.wait_for(lambda: not self._inside, WAIT_S)

    def after_in_parent(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def after_in_child(self) -> None:
        self.spoiled = self.spoiled or self._always_inside or self._inside > 0
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._forking = False

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
