"""Read durations as people write them: ``500ms``, ``30s``, ``1m30s``, ``2h``, ``PT30S``, ``30``."""

from __future__ import annotations

import re

from ..errors import UsageError

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
    raise UsageError(
        f"{text!r} is not a duration: write 500ms, 30s, 1m30s, 2h, PT30S or plain seconds"
    )
