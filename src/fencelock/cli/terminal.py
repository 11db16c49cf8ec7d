"""What people see: lines on stderr, colors where they are wanted, and one live line."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def say(message: str) -> None:
    """One line on stderr; a closed stderr is nobody's problem."""
    try:
        print(f"fencelock: {printable(message, sys.stderr)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def printable(text: str, stream: TextIO) -> str:
    """The text in what the stream can show, without control characters that move the cursor."""
    clean = "".join(char if char.isprintable() else "�" for char in text)
    encoding = stream.encoding or "ascii"
    return clean.encode(encoding, "replace").decode(encoding)


def traceback(error: BaseException) -> None:
    """The whole story, for those who asked with -v."""
    import traceback as library

    library.print_exception(error, file=sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads this stream, on a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def colors(stream: TextIO) -> bool:
    """Whether to color: what the environment says, else whether a person reads."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return is_terminal(stream) and os.environ.get("CLICOLOR", "1") != "0"


def paint(text: str, color: str, wanted: bool) -> str:
    """The text in a color, if colors are wanted."""
    return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if wanted else text


def live(text: str, stream: TextIO) -> None:
    """Replace the live line; an empty text takes it away."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 80
    try:
        stream.write("\r\x1b[K" + printable(text, stream)[: max(width - 1, 10)])
        stream.flush()
    except (OSError, ValueError):
        pass
