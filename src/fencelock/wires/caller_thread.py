"""One thread that calls a driver for all others.

Handlers of signals run in the main thread, between any two steps of it. An exception that one
raises within a driver may leave a mutex of the driver's own taken for ever; it does not reach what
another thread does.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock

from .daemon_thread import start_daemon


class CallerThread:
    """Runs what is submitted, in order; none of it may block. The first submission starts it."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._submitted = SimpleQueue[Callable[[], object] | None]()
        self._running = Lock()  # held by the thread

    def submit(self, work: Callable[[], object]) -> None:
        """Have this run soon; RuntimeError when there is no thread to be had."""
        self._submitted.put(work)
        if not self._running.locked():
            start_daemon(self._run, self._label)  # a second one ends at once

    def end(self, last: Callable[[], object] | None = None) -> None:
        """Run what was submitted, then this, and no more; nothing where the thread never began."""
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
                pass  # whoever wants to know takes it to where it is waited for
