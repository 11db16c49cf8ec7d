"""Readers for the options of a URL: one rule for each kind of value, whatever the engine.

A reader turns what a user wrote into a value, or raises ``Misconfigured`` with the option's name.
Options that several engines have are read here, and mean the same everywhere:

* ``request_timeout``: how long one request may remain without a reply, in seconds.
* ``connect_timeout``: how long a new connection may take, in seconds.
* ``prefix``: the beginning of the names of all keys.
* ``pool``: the most connections a client opens for its requests.
* ``tls``, ``ca``, ``cert``, ``key``: files mean TLS, and ``tls=no`` beside them is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from ..errors import Misconfigured

REQUEST_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 5.0
POOL = 8
SECONDS_MAX = 600.0
WORDS = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}

Reader: TypeAlias = Callable[[object], object]


def number(
    option: str, low: float, high: float, what: str = "a number"
) -> Callable[[object], float]:
    """Read a number from ``low`` to ``high``."""

    def read(value: object) -> float:
        try:
            found = float(str(value))
        except ValueError:
            found = low - 1.0
        if isinstance(value, bool) or not low <= found <= high:
            raise Misconfigured(
                f"{option} must be {what} from {low:g} to {high:g}, not {value!r:.80}"
            )
        return found

    return read


def seconds(option: str, low: float = 0.01, high: float = SECONDS_MAX) -> Callable[[object], float]:
    """Read a number of seconds."""
    return number(option, low, high, "a number of seconds")


def whole(option: str, low: int, high: int) -> Callable[[object], int]:
    """Read a whole number from ``low`` to ``high``."""
    inner = number(option, low, high, "a whole number")

    def read(value: object) -> int:
        found = inner(value)
        if not found.is_integer():
            raise Misconfigured(f"{option} must be a whole number, not {value!r:.80}")
        return int(found)

    return read


def switch(option: str) -> Callable[[object], bool]:
    """Read yes or no."""

    def read(value: object) -> bool:
        found = WORDS.get(str(value).lower())
        if found is None:
            raise Misconfigured(f"{option} must be yes or no, not {value!r:.80}")
        return found

    return read


def choice(option: str, *words: str) -> Callable[[object], str]:
    """Read one of a few words."""

    def read(value: object) -> str:
        if value not in words:
            raise Misconfigured(f"{option} must be one of {', '.join(words)}, not {value!r:.80}")
        return str(value)

    return read


def text(option: str) -> Callable[[object], str]:
    """Read a text that is not empty."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not value:
            raise Misconfigured(f"{option} must be a text that is not empty, not {value!r:.80}")
        return value

    return read


def file(option: str) -> Callable[[object], str]:
    """Read the path of a file."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not value:
            raise Misconfigured(f"{option} must be the path of a file, not {value!r:.80}")
        return value

    return read


def read_prefix(value: object) -> str:
    """Read the beginning of the names of all keys."""
    if not isinstance(value, str) or not value.isprintable():
        raise Misconfigured(f"prefix must be a printable text, not {value!r:.80}")
    return value


COMMON: Mapping[str, Reader] = {
    "request_timeout": seconds("request_timeout"),
    "connect_timeout": seconds("connect_timeout"),
    "prefix": read_prefix,
    "pool": whole("pool", 1, 64),
    "tls": switch("tls"),
    "ca": file("ca"),
    "cert": file("cert"),
    "key": file("key"),
}


def common(*names: str) -> dict[str, Reader]:
    """Return the readers of these options, which mean the same for every engine."""
    return {name: COMMON[name] for name in names}


class TlsFiles(NamedTuple):
    """The files of a TLS connection; None where the system's own are used, or none."""

    ca: str | None
    cert: str | None
    key: str | None


def tls(options: Mapping[str, object], *, implied: bool = False) -> TlsFiles | None:
    """Return the files for TLS, or None for plain text. A scheme may imply TLS."""
    ca, cert, key = (options.get(name) for name in ("ca", "cert", "key"))
    given = [name for name in ("ca", "cert", "key") if options.get(name) is not None]
    if not options.get("tls", implied or bool(given)):
        if given:
            raise Misconfigured(f"tls=no and {given[0]}= contradict each other: leave one out")
        return None
    if key is not None and cert is None:
        raise Misconfigured("key= is the key of a certificate: name that by cert=")
    return TlsFiles(*(None if path is None else str(path) for path in (ca, cert, key)))
