"""Wake a thread that waits for sockets: a pipe that is closed once and never written to after.

The number of a closed descriptor is used again for the next one that is opened, perhaps for a
connection: so waking and closing exclude each other.
"""

from __future__ import annotations

import os
import sys
import threading


class WakeupPipe:
    """Written to by any thread, polled by one."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()  # a client may be collected, and wake, at any moment
        self.descriptor = -1
        """The read end, to be polled; -1 until ``open``."""
        self._write_end = -1

    def open(self) -> int:
        """Make the pipe, and return the descriptor to poll."""
        with self._mutex:
            self.descriptor, self._write_end = os.pipe()
            os.set_blocking(self._write_end, False)
            return self.descriptor

    def wake(self) -> None:
        """Wake the polling thread; do nothing once the pipe is closed."""
        if sys.is_finalizing():
            return  # that thread is frozen, and may have the mutex
        with self._mutex:
            if self._write_end >= 0:
                try:
                    os.write(self._write_end, b"!")
                except BlockingIOError:
                    pass  # full: it was woken often enough

    def drain(self) -> None:
        """Read what was written: the thread is awake."""
        os.read(self.descriptor, 4096)

    def close(self) -> None:
        """Close both ends: nobody polls any more."""
        with self._mutex:
            if self._write_end >= 0:
                os.close(self.descriptor)
                os.close(self._write_end)
                self.descriptor = self._write_end = -1
