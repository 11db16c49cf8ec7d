"""The clock of the command line: it runs on while the machine is suspended.

The wrapper and its watchdog compare its readings. Both are children of one start in one time
namespace, so none of the corrections that the engines need are needed here.
"""

from __future__ import annotations

import sys
import time


def now() -> float:
    """Seconds on a clock that never steps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # there it runs through sleep, and time.monotonic() does not
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
