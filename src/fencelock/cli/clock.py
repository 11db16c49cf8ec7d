"""Read the time on a clock that runs on while the machine is suspended, and durations in words.

The wrapper and its watchdog compare its readings. Both are children of one start in one time
namespace, so none of the corrections that the engines need are needed here.
"""

from __future__ import annotations

import re
import sys
import time

from .codes import BadArguments


def now() -> float:
    """Seconds on a clock that never steps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # there it runs through sleep, and time.monotonic() does not
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


_NUMBER = r"(\d+(?:\.\d+)?)"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PLAIN = re.compile(_NUMBER, re.ASCII)
_PART = re.compile(_NUMBER + "(ms|s|m|h|d)", re.ASCII)
_PARTS = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
_ISO = re.compile(
    rf"P(?=T?\d)(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)


def seconds(text: str) -> float:
    """Read a duration, ``500ms 30s 1m30s 2h 1d PT1M30S`` or plain seconds."""
    plain = text.strip()
    if _PLAIN.fullmatch(plain):
        return float(plain)
    if match := _ISO.fullmatch(plain.upper()):
        days, hours, minutes, rest = (float(part or 0) for part in match.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + rest
    lower = plain.lower()
    if _PARTS.fullmatch(lower):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(lower))
    raise BadArguments(
        f"{text!r} is not a duration: write 500ms, 30s, 1m30s, 2h, PT30S or plain seconds"
    )


def brief(duration: float) -> str:
    """A duration for people: three digits at most, the unit that fits."""
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
