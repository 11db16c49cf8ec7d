"""Waking a thread that waits for sockets: a pipe that is closed once and never written to after.

The number of a closed descriptor belongs to whoever opens the next one, a connection perhaps: so
ringing and closing exclude each other.
"""

from __future__ import annotations

import os
import sys
import threading


class Alarm:
    """Rung by anybody, heard by one."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()  # a client may be collected, and ring, at any moment
        self.descriptor = -1
        """To be polled for reading, once opened."""
        self._ring = -1

    def open(self) -> int:
        """Make it; return what to poll."""
        with self._mutex:
            self.descriptor, self._ring = os.pipe()
            os.set_blocking(self._ring, False)
            return self.descriptor

    def ring(self) -> None:
        """Wake who listens; nothing when nobody does."""
        if sys.is_finalizing():
            return  # who listens stands still, and perhaps it has the mutex
        with self._mutex:
            if self._ring >= 0:
                try:
                    os.write(self._ring, b"!")
                except BlockingIOError:
                    pass  # full: it was rung often enough

    def hush(self) -> None:
        """It was heard."""
        os.read(self.descriptor, 4096)

    def close(self) -> None:
        """Nobody listens any more."""
        with self._mutex:
            if self._ring >= 0:
                os.close(self.descriptor)
                os.close(self._ring)
                self.descriptor = self._ring = -1
