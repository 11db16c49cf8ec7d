"""Start a daemon thread that an exception of a signal handler cannot keep from running.

``Thread.start`` waits, in Python, until the thread has begun, and an exception leaves it half done:
the thread never begins, or ends at once. Handlers run in the main thread only: there, another
thread starts it.

The caller may be interrupted before it has noted that it started a thread. So a thread that must
run only once notes that itself.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


def start_daemon(run: Callable[[], None], label: str) -> None:
    """Run this in a daemon thread; RuntimeError when none can be started."""
    if threading.current_thread() is threading.main_thread():
        _thread.start_new_thread(_start, (run, label))
    else:
        _start_here(run, label)


def _start_here(run: Callable[[], None], label: str) -> None:
    threading.Thread(target=run, name=label, daemon=True).start()


def _start(run: Callable[[], None], label: str) -> None:
    try:
        _start_here(run, label)
    except RuntimeError:  # no second thread: run in this one, which has no name
        run()
