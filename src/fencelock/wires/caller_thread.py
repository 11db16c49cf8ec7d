"""One thread that calls a driver for all others.

Signal handlers run in the main thread, between any two bytecodes. An exception that one raises
within a driver may leave a mutex of the driver's own taken for ever; it does not reach what another
thread does.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock

from .daemon_thread import start_daemon


class CallerThread:
    """Runs submitted calls in order; none may block. The first submission starts the thread."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._submitted = SimpleQueue[Callable[[], object] | None]()
        self._running = Lock()  # held by the thread

    def submit(self, work: Callable[[], object]) -> None:
        """Have this run soon; RuntimeError when no thread can be started."""
        self._submitted.put(work)
        if not self._running.locked():
            start_daemon(self._run, self._label)  # a second thread ends at once

    def end(self, last: Callable[[], object] | None = None) -> None:
        """End the thread after what was submitted and ``last``; without a thread, run neither."""
        if last is not None:
            self._submitted.put(last)
        self._submitted.put(None)

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        while (work := self._submitted.get()) is not None:
            try:
                work()
            except Exception:
                pass  # work whose errors matter hands them to its waiter
