"""Findings that the doctors of several engines share: clocks that differ, and room that runs out.

A wrong clock ends no lease early: a lease lasts by one clock alone, the engine's or the holder's.
It is reported because fences are lifted to the wall clock of the machine that draws them, and
because logs of several machines are read side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..model import Finding

AHEAD_MAX_S = 1.0  # a request itself takes less
FULL = 0.8  # more than this part of a limit in use deserves a warning
FOLLOW = "have all machines follow a time server"


def clock_offset(server_us: int, before_us: int, after_us: int) -> float:
    """Return how many seconds a server's clock is ahead of ours.

    It was read between two readings of our own clock: presumably half way.
    """
    return (server_us - (before_us + after_us) / 2) / 1e6


def clock(
    ahead_s: float,
    whose: str = "the server's clock",
    level: Literal["note", "warning"] = "note",
    advice: str = FOLLOW,
) -> Finding:
    """Compare one server's clock with that of this machine."""
    if abs(ahead_s) <= AHEAD_MAX_S:
        return Finding("ok", "clock", f"{whose} agrees with ours")
    way = "ahead of" if ahead_s > 0 else "behind"
    return Finding(level, "clock", f"{whose} is {abs(ahead_s):.1f} s {way} ours", advice)


def clocks(ahead_s: Mapping[str, float]) -> list[Finding]:
    """Compare the clocks of several servers; each is given as seconds ahead of ours."""
    if len(ahead_s) < 2:
        return []
    first, last = min(ahead_s, key=ahead_s.__getitem__), max(ahead_s, key=ahead_s.__getitem__)
    apart = ahead_s[last] - ahead_s[first]
    if apart <= AHEAD_MAX_S:
        return [Finding("ok", "clocks", "the clocks of the nodes agree")]
    text = f"the clocks of {first} and {last} are {apart:.1f} s apart"
    return [Finding("warning", "clocks", text, "have all nodes follow a time server")]


def room(topic: str, used: int, most: int, advice: str) -> Finding:
    """Report how much of a limit is in use; 0 means that there is no limit."""
    text = f"{used} of {most} in use" if most else f"{used} in use, without a limit"
    if most and used > FULL * most:
        return Finding("warning", topic, text, advice)
    return Finding("ok", topic, text)
