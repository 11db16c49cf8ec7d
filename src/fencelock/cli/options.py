"""Arguments that several verbs share, and their readers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..checks import check_name, check_prefix, check_ttl
from ..errors import UsageError
from ..model import Scalar
from . import codes
from .codes import WrongLine
from .durations import seconds


class Wish(NamedTuple):
    """Which lock is wanted, and how long to wait for it."""

    name: str
    ttl: float
    timeout: float | None
    meta: dict[str, Scalar]
    busy_code: int
    """The exit code when the lock is not had in time."""
    quiet: bool


def lock_arguments(parser: argparse.ArgumentParser, lowest_code: int = 1) -> None:
    """A name, how long to wait for it and for how long to have it: with flock's spellings."""
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
        help=f"exit code when the lock is not had in time (default {codes.NOT_ACQUIRED})",
    )
    add("--ttl", metavar="DUR", default="30s", help="length of the lease (default 30s)")
    add("--meta", metavar="K=V", action="append", default=[], help="shown to whoever asks")
    add("-q", "--quiet", action="store_true", help="say nothing but errors")


def wish_of(options: argparse.Namespace, **meta: Scalar) -> Wish:
    """Read what ``lock_arguments`` asks for."""
    if options.nonblock and options.wait is not None:
        raise WrongLine("-n does not wait and -w does: give one of them")
    return Wish(
        name=name_of(options.name),
        ttl=check_ttl(seconds(options.ttl), "--ttl"),
        timeout=0.0 if options.nonblock else optional(options.wait),
        meta={**meta, **meta_of(options.meta)},
        busy_code=options.conflict_exit_code,
        quiet=options.quiet,
    )


def name_of(text: str) -> str:
    """A lock's name from the command line, which is bytes."""
    return check_name(_text(text))


def prefix_of(text: str) -> str:
    """The beginning of names, which may be empty."""
    return check_prefix(_text(text))


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name {text!a} is not valid UTF-8: a lock's name is a text") from None
    return text


def optional(text: str | None) -> float | None:
    """A duration that may be missing."""
    return None if text is None else seconds(text)


def number_of(lowest: int, highest: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no whole number from {lowest} to {highest}"
            )
        return int(text)

    return read


def meta_of(pairs: Sequence[str]) -> dict[str, str]:
    """Words about a hold, from ``--meta key=value``."""
    words: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise WrongLine(f"--meta is written key=value, not {pair!r}")
        words[key] = value
    return words


def without_secrets(url: str) -> str:
    """A URL that others may see: without its password, and without options that look like one."""
    head, _, query = url.partition("?")
    scheme, separator, rest = head.partition("://")
    netloc, slash, path = rest.partition("/")
    credentials, at, hosts = netloc.rpartition("@")
    kept = "&".join(pair for pair in query.split("&") if pair and not _is_secret(pair))
    user = credentials.partition(":")[0]
    return f"{scheme}{separator}{user}{at if user else ''}{hosts}{slash}{path}" + (
        f"?{kept}" if kept else ""
    )


def _is_secret(pair: str) -> bool:
    key = pair.partition("=")[0].lower()
    return any(word in key for word in ("pass", "secret", "token", "key", "auth", "credential"))
