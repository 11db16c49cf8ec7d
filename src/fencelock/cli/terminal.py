"""Print for people: lines on stderr, colors where they are wanted, and one live line.

A standard stream that is closed is None in Python. That is not reported: a caller that closes
stderr does not want to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from ..errors import FencelockError
from ..model import shown

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_live = False  # a live line stands on the terminal


def prepare() -> None:
    """Open closed standard streams, so that no pipe of ours gets their number, and escape each
    character that a stream cannot encode instead of failing.

    What is opened here is closed again by an exec: the command finds the streams as they were.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """Print a line on stderr."""
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    clear = "\r\x1b[K" if _live else ""
    try:
        print(f"{clear}fencelock: {printable(message, stream)}", file=stream, flush=True)
    except (OSError, ValueError):
        pass


def emit(facts: Mapping[str, object]) -> None:
    """Print a JSON object on a line of stdout."""
    import json

    out(json.dumps({"schema": 1, **facts}))


def out(line: str) -> None:
    """Print a line on stdout."""
    lines([fitting(line)])


def fitting(text: str) -> str:
    """Return the text in characters that stdout can show."""
    return printable(text, sys.stdout)


def lines(ready: Sequence[str]) -> None:
    """Print lines on stdout that are printable already, and may be colored."""
    stream: TextIO | None = sys.stdout
    if stream is None:
        return
    try:
        print("\n".join(ready), file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FencelockError(f"stdout cannot be written: {error.strerror}") from error


def printable(text: str, stream: TextIO | None) -> str:
    """Return the text in characters that the stream can show; none of them moves the cursor."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return shown(text).encode(encoding, "replace").decode(encoding)


def traceback(error: BaseException) -> None:
    """Print the whole traceback, for -v."""
    import traceback as library

    library.print_exception(error, file=sys.stderr)


def width(text: str) -> int:
    """Count the columns a text takes on a terminal: two for wide characters, none for accents."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a person reads this stream, on a terminal that can move its cursor."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") != "dumb"


def colors(stream: TextIO | None) -> bool:
    """Return whether to color: what the environment says, else whether a person reads."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return is_terminal(stream) and os.environ.get("CLICOLOR", "1") != "0"


def paint(text: str, color: str, wanted: bool) -> str:
    """Return the text in a color, if colors are wanted."""
    return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if wanted else text


def size(stream: TextIO | None) -> tuple[int, int]:
    """Return the columns and lines of a terminal."""
    try:
        found = os.get_terminal_size(1 if stream is None else stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return (found.columns or 80), (found.lines or 24)


def live(text: str, stream: TextIO) -> None:
    """Replace the live line; an empty text removes it."""
    global _live
    _live = bool(text)
    try:
        stream.write("\r\x1b[K" + printable(text, stream)[: max(size(stream)[0] - 1, 10)])
        stream.flush()
    except (OSError, ValueError):
        pass
