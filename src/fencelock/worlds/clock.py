"""The clocks of this machine.

``now()`` must run through suspend and must be one clock for all processes of a machine, containers
with a time namespace of their own included: the embedded engine compares its values across
processes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial


def namespace_offset(text: str) -> float:
    """Read from ``timens_offsets`` the seconds that a Linux time namespace adds to boot time."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[0] == "boottime":
            return int(fields[1]) + int(fields[2]) / 1e9
    return 0.0


def _pick() -> Callable[[], float]:
    if sys.platform == "linux":
        try:
            with open("/proc/self/timens_offsets") as file:
                offset = namespace_offset(file.read())
        except (OSError, ValueError):
            offset = 0.0
        if offset:
            return lambda: time.clock_gettime(time.CLOCK_BOOTTIME) - offset
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if (
        sys.platform == "darwin"
    ):  # there CLOCK_MONOTONIC runs through sleep, time.monotonic() does not
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


now: Callable[[], float] = _pick()


def wall_us() -> int:
    """Return the microseconds since 1970 on the wall clock."""
    return time.time_ns() // 1000
