"""Printing: a line for each thing that happens, with time, process and fence, in color if wanted.

All text of the demo is ASCII; what else gets into a message is replaced where it cannot be shown.
"""

from __future__ import annotations

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
    """Color is for a terminal that can show it and a user who did not say no (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Timeline:
    """Prints to standard output."""

    def __init__(self, *, color: bool) -> None:
        self._color = color and wants_color(sys.stdout)
        self._began_at = time.monotonic()
        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(errors="replace")

    def head(self) -> None:
        """Print the names of the columns."""
        self.say(f"\n  time  {'process':<10}{'fence':>16}  what happened", "faint")

    def event(self, who: str, what: str, tone: Tone = "plain", fence: int | None = None) -> None:
        """Print one line of the timeline."""
        seconds = time.monotonic() - self._began_at
        number = "" if fence is None else str(fence)
        self.say(f"{seconds:5.2f}s  {who:<10}{number:>16}  {what}", tone)

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Print a line as it is."""
        code = CODES[tone] if self._color else ""
        print(f"{code}{text}{RESET}" if code else text, flush=True)
