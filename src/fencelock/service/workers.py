"""Several processes that serve one address: started, replaced when one dies, ended together.

The parent holds the socket and no engine, and serves no calls. A worker is a whole node: whichever
of them gets a call, the engine alone knows who holds what. Workers end when their parent does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

RESTART_S = 1.0  # before a worker that died is replaced
HANDLED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
_log = logging.getLogger("fencelock.service")


class Worker(NamedTuple):
    """The descriptors that a worker gets from its parent."""

    parent: int
    """A descriptor that is readable when the parent is gone."""
    told: int

    def ready(self) -> None:
        """Report to the parent that calls are accepted; it does not wait for replacements."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.told, b".")
        os.close(self.told)


def supervise(count: int, announce: Callable[[], None]) -> Worker | None:
    """Start workers, and replace those that die, until a signal ends all.

    Return its Worker in each of them, and None in the parent once all have ended. If the first one
    does not come up, the parent exits with its code: no other is started to fail the same way.
    """
    return _Parent(count, announce).run()


class _Parent:
    def __init__(self, count: int, announce: Callable[[], None]) -> None:
        self._count = count
        self._announce = announce
        self._alive = os.pipe()
        self._pids: set[int] = set()
        self._due: list[float] = []
        """When to start workers in place of those that died."""
        self._stopping = False
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)

    def run(self) -> Worker | None:
        try:
            for number in range(self._count):
                worker = self._start()
                if isinstance(worker, Worker):
                    return worker
                if not os.read(worker, 1) and number == 0:
                    (pid,) = self._pids
                    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(worker)
            self._announce()
            return self._watch()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _start(self) -> Worker | int:
        """Start a worker; in the parent, return a descriptor that it writes to once it serves."""
        told, tell = os.pipe()
        pid = os.fork()
        if pid:
            os.close(tell)
            self._pids.add(pid)
            return told
        os.close(told)
        os.close(self._alive[1])
        os.environ.pop("NOTIFY_SOCKET", None)  # the parent notifies systemd for all
        return Worker(self._alive[0], tell)

    def _watch(self) -> Worker | None:
        while self._pids or self._due:
            wait = max(0.0, min(self._due) - time.monotonic()) if self._due else 3600.0
            told = signal.sigtimedwait(HANDLED, wait)
            if told is not None and told.si_signo != signal.SIGCHLD:
                self._pass_on(told.si_signo)
            self._reap()
            while self._due and not self._stopping and min(self._due) <= time.monotonic():
                self._due.remove(min(self._due))
                worker = self._start()
                if isinstance(worker, Worker):
                    return worker
                os.close(worker)
        return None

    def _pass_on(self, number: int) -> None:
        """Send all workers the signal that the parent got: SIGHUP as it is, others as SIGTERM."""
        if number != signal.SIGHUP:
            self._stopping = True
            self._due = []
            number = signal.SIGTERM
        for pid in self._pids:
            os.kill(pid, number)

    def _reap(self) -> None:
        for pid in [*self._pids]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            self._pids.remove(pid)
            if not self._stopping:
                code = os.waitstatus_to_exitcode(status)
                _log.error("a worker has ended with %d and is replaced", code)
                self._due.append(time.monotonic() + RESTART_S)
