"""Durations as people write them: ``500ms 30s 1m30s 2h 1d PT1M30S`` or plain seconds."""

from __future__ import annotations

import re

from ..errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO = re.compile(
    r"P(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def seconds(text: str) -> float:
    """Read a duration, or say how one is written."""
    plain = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    if _ISO.fullmatch(plain.upper()) and any(char.isdigit() for char in plain):
        days, hours, minutes, rest = (float(part or 0) for part in _iso(plain))
        return days * 86_400 + hours * 3600 + minutes * 60 + rest
    lower = plain.lower()
    parts = _PART.findall(lower)
    if parts and "".join(number + unit for number, unit in parts) == lower:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    raise UsageError(
        f"{text!r} is no duration: write 500ms, 30s, 1m30s, 2h, PT30S or plain seconds"
    )


def _iso(text: str) -> tuple[str | None, ...]:
    match = _ISO.fullmatch(text.upper())
    assert match is not None
    return match.groups()


def brief(duration: float) -> str:
    """A duration for people: three digits at most, the unit that fits."""
    if duration < 1:
        return f"{duration * 1000:.0f}ms"
    if duration < 60:
        return f"{duration:.3g}s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"
