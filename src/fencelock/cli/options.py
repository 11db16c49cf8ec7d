"""Add and read the arguments that several verbs share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .._client.validation import LIMIT_MAX, check_linger, check_name, check_prefix, check_ttl
from ..errors import UsageError
from ..model import Kind, Role, Scalar, kind_of
from . import codes
from .clock import seconds
from .codes import BadArguments

if TYPE_CHECKING:
    from ..sync import Client


class LockRequest(NamedTuple):
    """The requested lock, and how long to wait for it."""

    name: str
    ttl: float
    timeout: float | None
    meta: dict[str, Scalar]
    busy_code: int
    """The exit code when the lock is not acquired in time."""
    quiet: bool
    role: Role = "lock"
    limit: int | None = None
    """How many may hold a semaphore at a time; None for other locks."""
    min_hold: float | None = None

    @property
    def kind(self) -> Kind:
        return kind_of(self.role)


def lock_arguments(parser: argparse.ArgumentParser, lowest_code: int = 1) -> None:
    """Add the name, the longest wait and the ttl; the options of flock(1) are spelled as there."""
    add = parser.add_argument
    add("name", metavar="NAME", help="what to lock")
    add("-n", "--nonblock", action="store_true", help="do not wait for the lock")
    add("-w", "--wait", metavar="DUR", help="the longest wait for the lock (default: no limit)")
    add(
        "-E",
        "--conflict-exit-code",
        metavar="CODE",
        type=number_of(lowest_code, 255),
        default=codes.NOT_ACQUIRED,
        help=f"exit code when the lock is not acquired in time (default {codes.NOT_ACQUIRED})",
    )
    add("--ttl", metavar="DUR", default="30s", help="length of the lease (default 30s)")
    add("--meta", metavar="K=V", action="append", default=[], help="a fact that ls and show print")
    add("-q", "--quiet", action="store_true", help="print errors only")


def share_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of locks that several may hold: semaphores and read/write locks."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--limit",
        metavar="N",
        type=number_of(1, LIMIT_MAX),
        help="a semaphore: at most N hold NAME at a time",
    )
    ways.add_argument("--read", action="store_true", help="hold NAME together with other readers")
    ways.add_argument("--write", action="store_true", help="hold NAME beside no reader or writer")


def lock_request(options: argparse.Namespace, **meta: Scalar) -> LockRequest:
    """Check and return what ``lock_arguments`` and ``share_arguments`` have parsed."""
    if options.nonblock and options.wait is not None:
        raise BadArguments("-n does not wait and -w does: give one of them")
    limit, role = getattr(options, "limit", None), _role(options)
    hold_at_least = optional(getattr(options, "hold_at_least", None))
    if hold_at_least is not None and role != "lock":
        raise BadArguments("--hold-at-least is for plain locks: leave out --limit, --read, --write")
    return LockRequest(
        name=name_of(options.name),
        ttl=check_ttl(seconds(options.ttl), "--ttl"),
        timeout=0.0 if options.nonblock else optional(options.wait),
        meta={**meta, **meta_of(options.meta)},
        busy_code=options.conflict_exit_code,
        quiet=options.quiet,
        role=role,
        limit=limit,
        min_hold=None if hold_at_least is None else check_linger(hold_at_least, "--hold-at-least"),
    )


def _role(options: argparse.Namespace) -> Role:
    if getattr(options, "limit", None) is not None:
        return "semaphore"
    if getattr(options, "read", False):
        return "read"
    return "write" if getattr(options, "write", False) else "lock"


def name_of(text: str) -> str:
    """Check the name of a lock from the command line, which is bytes."""
    return check_name(_text(text))


def prefix_of(text: str) -> str:
    """Check a prefix of names, which may be empty."""
    return check_prefix(_text(text))


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        given = ascii(os.fsencode(text))[1:]  # the bytes, as a shell would have them written
        raise UsageError(f"the name {given} is not valid UTF-8: a lock's name is a text") from None
    return text


def optional(text: str | None) -> float | None:
    """Parse a duration that may be missing."""
    return None if text is None else seconds(text)


def number_of(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a function that parses a whole number within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {lowest} to {highest}"
            )
        return int(text)

    return read


def meta_of(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the metadata of ``--meta key=value``."""
    words: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise BadArguments(f"--meta is written key=value, not {pair!r}")
        words[key] = value
    return words


def engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose an engine, for every verb that uses one."""
    parser.add_argument("--url", help="the engine (default: FENCELOCK_URL, else the embedded one)")
    parser.add_argument(
        "--scope",
        choices=("host", "network"),
        help="refuse an engine whose locks do not reach all processes of the host, or all hosts",
    )


def url_of(options: argparse.Namespace) -> str | None:
    """Return the engine that was named, as an option or as an argument; None for the default."""
    engine_url: str | None = getattr(options, "engine_url", None)
    url: str | None = options.url
    if engine_url is not None and url is not None:
        raise BadArguments(f"two engines are named, --url and {engine_url!r}: name one of them")
    return url if engine_url is None else engine_url


def connected(options: argparse.Namespace) -> Client:
    """Return an open client of the engine that was named, or of the default one."""
    from ..sync import connect

    demanded = {} if options.scope is None else {"scope": options.scope}
    client = connect(url_of(options), **demanded)
    client.open()
    return client
