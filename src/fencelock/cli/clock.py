"""Read a clock that goes on while the machine is suspended; parse and format durations.

The wrapper and its watchdog compare readings of it. The watchdog is forked from the wrapper and is
in the same time namespace, so none of the corrections that engines need are needed here.
"""

from __future__ import annotations

import sys
import time

from .._client import durations
from ..errors import UsageError
from .codes import BadArguments


def now() -> float:
    """Return the seconds on a clock that never steps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # there it runs through sleep, and time.monotonic() does not
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


def seconds(text: str) -> float:
    """Parse a duration of the command line into seconds."""
    try:
        return durations.seconds(text)
    except UsageError as error:
        raise BadArguments(str(error)) from None


def brief(duration: float) -> str:
    """Format a duration for people: a few digits, in the one or two units that fit."""
    if duration < 0.9995:
        return f"{duration * 1000:.0f}ms"
    if duration < 59.95:
        return f"{duration:.3g}s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"
