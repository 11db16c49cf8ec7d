"""Printing: one line for each thing that happens, with its time, process and fence; in color where that is wanted.

All text is ASCII, and whatever else gets into a message is replaced where the terminal cannot show it.
"""

from __future__ import annotations

import io
import os
import sys
import time
from typing import Literal, TextIO

Tone = Literal["plain", "faint", "good", "alarm", "bad"]

CODES: dict[Tone, str] = {
    "plain": "",
    "faint": "\033[2m",
    "good": "\033[32m",
    "alarm": "\033[1;33m",
    "bad": "\033[1;31m",
}
RESET = "\033[0m"


def wants_color(stream: TextIO) -> bool:
    """Color only for a terminal that can show it and a user who has not said no (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Timeline:
    """Prints to standard output."""

    def __init__(self, color: bool) -> None:
        self._color = color and wants_color(sys.stdout)
        self._began_at = time.monotonic()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")

    def head(self) -> None:
        self.say(f"\n{'time':>7}   {'process':<10}{'fence':>17}   what happened", "faint")

    def event(self, who: str, what: str, tone: Tone = "plain", fence: int | None = None) -> None:
        """Print one line of the timeline."""
        seconds = time.monotonic() - self._began_at
        number = "" if fence is None else str(fence)
        self.say(f"{seconds:6.2f}s   {who:<10}{number:>17}   {what}", tone)

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Print a line as it is."""
        code = CODES[tone] if self._color else ""
        print(f"{code}{text}{RESET}" if code else text, flush=True)
