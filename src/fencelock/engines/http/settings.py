"""Read the settings of the connections to the nodes of a service, and the token, from a URL."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ...wires.tls import Tls
from ..options import CONNECT_TIMEOUT_S, POOL, REQUEST_TIMEOUT_S, Reader, common, file, tls

PORTS = {"http": 80, "https": 443}
VARIABLE = "FENCELOCK_TOKEN"
TOKEN = re.compile(r"[!-~]{1,4096}")  # the characters of a header's value, without spaces
PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def _read_token(value: object) -> str:
    """Read a token. It is not repeated in the error."""
    if not isinstance(value, str) or not TOKEN.fullmatch(value):
        raise Misconfigured("token must be what `fencelock token` printed: one word of ASCII")
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "pool", "ca", "cert", "key"),
    "token": _read_token,
    "token_file": file("token_file"),
}


class Settings(NamedTuple):
    """The addresses of the nodes, and the options of the calls."""

    nodes: tuple[tuple[str, int], ...]
    tls: Tls | None
    path: str
    """The prefix of the path of every call."""
    prefix: str
    """The prefix of all names that are sent."""
    token: str | None
    token_file: str | None
    request_timeout: float
    connect_timeout: float
    pool: int
    where: str
    """The URL without a token, for messages."""

    def __repr__(self) -> str:
        return f"Settings({self.where!r})"


def without_token(address: Address) -> Address:
    """Move the token of ``https://TOKEN@host`` from user to password, which no message shows.

    ``https://anything:TOKEN@host`` works, too, for programs that require a user.
    """
    if address.user is None and address.password is None:
        return address
    if address.options.get("token") is not None or address.options.get("token_file") is not None:
        raise Misconfigured("the URL and an option both name a token: leave one out")
    token = _read_token(address.password or address.user)
    return address._replace(user=None, password=token)


def read(address: Address) -> Settings:
    """Read an address whose options were checked."""
    options, where = address.options, address.public
    if not address.hosts:
        raise Misconfigured(f"{where} names no host: write {address.scheme}://host:port")
    path = address.path.rstrip("/")
    if not PATH.fullmatch(path):
        raise Misconfigured(f"the path of {where} must be words between slashes, or nothing")
    secure = address.scheme == "https"
    files = tls(options, implied=secure)
    if files is not None and not secure:
        raise Misconfigured("ca=, cert= and key= are for TLS: write https://")
    port = PORTS[address.scheme]
    return Settings(
        nodes=tuple((host.strip("[]"), number or port) for host, number in address.hosts),
        tls=None if files is None else Tls(*files),
        path=path,
        prefix=str(options.get("prefix", "")),
        token=_token(address),
        token_file=_text(options.get("token_file")),
        request_timeout=float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        connect_timeout=float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
        pool=int(str(options.get("pool", POOL))),
        where=where,
    )


def _token(address: Address) -> str | None:
    """Return the token of an option, of the URL, or else of the environment."""
    options = address.options
    if options.get("token") is not None and options.get("token_file") is not None:
        raise Misconfigured("token= and token_file= both name a token: leave one out")
    if (given := _text(options.get("token")) or address.password) is not None:
        return given
    if options.get("token_file") is not None:
        return None
    if (found := os.environ.get(VARIABLE)) is None:
        return None
    if not TOKEN.fullmatch(found):
        raise Misconfigured(
            f"{VARIABLE} is not what `fencelock token` printed: set it, or unset it"
        )
    return found


def token_of(settings: Settings) -> str | None:
    """Return the token to send; a token file is read every time, because it may be replaced."""
    if settings.token_file is None:
        return settings.token
    try:
        with open(settings.token_file, encoding="ascii") as opened:
            found = opened.read(8192).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Misconfigured(f"token_file={settings.token_file} cannot be read: {why}") from error
    if not TOKEN.fullmatch(found):
        raise Misconfigured(f"{settings.token_file} has no token: it is the word that was printed")
    return found


def _text(value: object) -> str | None:
    return None if value is None else str(value)
