"""The scripts of actors: one statement per line, parsed into values.

    at 0.5
    acquire seat ttl 5 timeout 10 renew off
    read
    work 1
    write Alice
    release

A script behaves as a program would: an error ends the block in which the lock is held, so the lock
is released if the script would do so later, and the rest is skipped.
"""

from __future__ import annotations

from typing import NamedTuple

from .._client.validation import TTL_MIN_S
from ..errors import UsageError

TIME_MAX_S = 600.0
COUNT_MAX = 1_000_000
STATEMENTS = (
    "at T", "acquire NAME [ttl T] [timeout T] [renew off] [forever]", "read", "check", "work T",
    "write V [if unchanged]", "append V [if unchanged]", "insert V [for KEY | once KEY]", "take N",
    "renew", "release", "again", "stop on loss", "stop unless free",
)  # fmt: skip


class Statement(NamedTuple):
    """One line of a script."""

    verb: str
    text: str
    seconds: float = 0.0
    """The time of ``at``, the duration of ``work``."""
    word: str = ""
    """The name of a lock, or the text that is written."""
    ttl: float | None = None
    timeout: float | None = None
    renews: bool = True
    forever: bool = False
    """Whether the lock has no ttl, as with ``SET NX`` alone."""
    unchanged: bool = False
    """Whether the resource accepts the write only if it has not changed since it was read."""
    key: str = ""
    """The key of an ``insert``'s work."""
    once: bool = False
    """Whether the resource accepts a key only once."""
    number: int = 0
    """How many ``take`` takes."""


def read_statement(text: str, where: str) -> Statement:
    """Parse one line; the UsageError names its position and what is wrong with it."""
    words = text.split()
    match words:
        case ["at" | "work" as verb, seconds]:
            return Statement(verb, text, seconds=_seconds(seconds, where))
        case ["read" | "check" | "renew" | "release" | "again" as verb]:
            return Statement(verb, text)
        case ["write" | "append" as verb, _, *_, "if", "unchanged"]:
            return Statement(verb, text, word=" ".join(words[1:-2]), unchanged=True)
        case ["write" | "append" as verb, _, *_]:
            return Statement(verb, text, word=" ".join(words[1:]))
        case ["insert", *_, "for" | "once"]:
            raise UsageError(f"{where}: a key is wanted after {words[-1]!r}")
        case ["insert", _, *_, "for" | "once" as how, key]:
            word = " ".join(words[1:-2])
            return Statement("insert", text, word=word, key=key, once=how == "once")
        case ["insert", _, *_]:
            return Statement("insert", text, word=" ".join(words[1:]))
        case ["take", count]:
            return Statement("take", text, number=_whole(count, where))
        case ["stop", "on", "loss"]:
            return Statement("stop on loss", text)
        case ["stop", "unless", "free"]:
            return Statement("stop unless free", text)
        case ["acquire", name, *options]:
            return _acquire(text, name, options, where)
        case _:
            pass
    known = "; ".join(STATEMENTS)
    raise UsageError(f"{where}: {text!r} is not a statement; there are: {known}")


def _acquire(text: str, name: str, options: list[str], where: str) -> Statement:
    statement = Statement("acquire", text, word=name)
    left = options
    while left:
        match left:
            case ["ttl", seconds, *left]:
                statement = statement._replace(ttl=_seconds(seconds, where, TTL_MIN_S))
            case ["timeout", seconds, *left]:
                statement = statement._replace(timeout=_seconds(seconds, where))
            case ["renew", "off", *left]:
                statement = statement._replace(renews=False)
            case ["forever", *left]:
                statement = statement._replace(forever=True)
            case _:
                raise UsageError(
                    f"{where}: {' '.join(left)!r} is no option of acquire; there are: ttl T, "
                    "timeout T, renew off, forever"
                )
    if statement.forever and statement.ttl is not None:
        raise UsageError(f"{where}: a lock that is held forever has no ttl: leave one of them out")
    return statement


def _whole(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit() and 1 <= int(word[:9]) <= COUNT_MAX):
        raise UsageError(f"{where}: {word!r} is not a whole number from 1 to {COUNT_MAX}")
    return int(word)


def _seconds(word: str, where: str, least: float = 0.0) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not least <= seconds <= TIME_MAX_S:  # also false for nan
        raise UsageError(
            f"{where}: {word!r} is not a time from {least:g} to {TIME_MAX_S:g} seconds"
        )
    return seconds
