"""Turn a URL into an Address, and say plainly what is wrong with one that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..engine import Address
from ..errors import Misconfigured

_EXAMPLE = "it must look like sqlite:///locks.db or redis://host:6379/0"
_SCHEME = dict.fromkeys(map(ord, "+-_"))  # may stand in a scheme, as in postgresql+psycopg_async
_PLAIN = dict.fromkeys(map(ord, "/-_.~"))  # stands in a path as it is


def default_url() -> str:
    """Return the URL to use where none is given: ``FENCELOCK_URL``, or a file of this user's."""
    if (url := os.environ.get("FENCELOCK_URL")) is not None:
        if not url.strip():
            raise Misconfigured(
                "FENCELOCK_URL is set and empty, so it is not clear which engine is meant: name "
                "one, or unset it to lock in a file of this user's own"
            )
        return url
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    folder = os.path.join(state, "fencelock")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"no engine is named and the folder {folder} for the embedded one cannot be made "
            f"({error.strerror}): pass a URL or set FENCELOCK_URL"
        ) from error
    return f"sqlite:///{_quote(os.path.abspath(os.path.join(folder, 'locks.db')))}"


def parse(url: object, options: Mapping[str, object]) -> Address:
    """Read a URL; keyword options win over query parameters of the same name."""
    if not isinstance(url, str):
        raise Misconfigured(f"an engine URL must be a str, not {type(url).__name__}: {_EXAMPLE}")
    scheme, separator, rest = url.strip().partition("://")
    if not separator or not scheme.translate(_SCHEME).isalnum():
        raise Misconfigured(f"{_redact(url)!r} is not an engine URL: {_EXAMPLE}")
    _refuse_stray_at(rest)
    rest, _, query = rest.partition("?")
    netloc, slash, path = rest.partition("/")
    credentials, _, hosts = netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    try:
        pairs = _pairs(query) if query else []
    except ValueError:
        raise Misconfigured(
            "the options of the URL cannot be read: write ?key=value&key=value, and percent-encode "
            "what is special in a value"
        ) from None
    twice = {key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1}
    if twice:
        raise Misconfigured(f"the URL gives {', '.join(sorted(twice))} more than once")
    return Address(
        scheme=scheme.lower(),
        hosts=tuple(_host(part) for part in hosts.split(",")) if hosts else (),
        path=slash + _unquote(path),
        user=_unquote(user) if user else None,
        password=_unquote(password) if colon else None,
        options={**dict(pairs), **options},
    )


def with_path(url: str, path: str) -> str:
    """Return a URL with another path, unless it is that already; all else stays as it was given."""
    if parse(url, {}).path == path:
        return url
    scheme, separator, rest = url.strip().partition("://")
    place, mark, query = rest.partition("?")
    return scheme + separator + place.partition("/")[0] + _quote(path) + mark + query


# urllib.parse costs 3 to 10 ms at the start of a program, and most URLs have nothing to decode.


def _quote(path: str) -> str:
    if path.isascii() and path.translate(_PLAIN).isalnum():
        return path
    from urllib.parse import quote

    return quote(path)


def _unquote(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _pairs(query: str) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return parse_qsl(query, keep_blank_values=True, strict_parsing=True)


def _refuse_stray_at(rest: str) -> None:
    """Refuse an @ behind the host part: a password has / or ? in it. The message hides it."""
    netloc = rest.partition("?")[0].partition("/")[0]
    if netloc and "@" not in netloc and ":" in netloc and "@" in rest:
        raise Misconfigured(
            "the password of the URL has a / or ? in it: percent-encode those as %2F and %3F"
        )


def _host(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):  # no port; brackets keep the colons of an IPv6 address
        host, port = text, ""
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise Misconfigured("an IPv6 address in a URL stands in brackets, as in [::1]:6379")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        # The message does not show it: it may be a password whose host was forgotten.
        raise Misconfigured("a port of the URL is not a number from 1 to 65535: write host:port")
    if not host:
        raise Misconfigured("a host is missing in the URL: write host:port")
    return host, int(port) if port else None


def _redact(url: str) -> str:
    """Return a text that was meant to be a URL, without what may be a password."""
    _, at, tail = url.rpartition("@")
    return f"…@{tail}" if at else url
