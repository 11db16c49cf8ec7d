"""Read the settings of the connections to the agents, and the token, from a URL."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ...wires.tls import Tls
from ..options import CONNECT_TIMEOUT_S, POOL, REQUEST_TIMEOUT_S, Reader, common, seconds, tls

PORT, TLS_PORT = 8500, 8501
VARIABLE = "CONSUL_HTTP_TOKEN"  # as HashiCorp's own programs read it
SESSION_TTL_MIN_S, SESSION_TTL_MAX_S = 10.0, 86_400.0  # what Consul allows by default
LOCK_DELAY_MAX_S = 60.0
_TOKEN = re.compile(r"[!-~]{1,4096}")  # the characters of a header's value, without spaces


def _read_token(value: object) -> str:
    """Read a token. It is not repeated in the error."""
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise Misconfigured("token must be the SecretID of a token of Consul: one word of ASCII")
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "pool", "tls", "ca", "cert", "key"),
    "token": _read_token,
    "lock_delay": seconds("lock_delay", 0.0, LOCK_DELAY_MAX_S),
    "session_ttl_min": seconds("session_ttl_min", 1.0, SESSION_TTL_MAX_S),
}


class Settings(NamedTuple):
    """The addresses of the agents, and the options of the requests."""

    nodes: tuple[tuple[str, int], ...]
    tls: Tls | None
    token: str | None
    prefix: str
    lock_delay: float
    session_ttl_min: float
    request_timeout: float
    connect_timeout: float
    pool: int

    def __repr__(self) -> str:
        return f"Settings({self.nodes!r})"


def read(address: Address) -> Settings:
    """Read an address whose options were checked."""
    options, where = address.options, address.public
    if not address.hosts:
        raise Misconfigured(f"{where} names no agent: write consul://host:{PORT}")
    if address.path not in ("", "/"):
        raise Misconfigured(f"{where} has a path: what all keys begin with is named by prefix=")
    if address.user is not None or address.password is not None:
        raise Misconfigured(f"a consul URL has no user: give the token by token=, or {VARIABLE}")
    files, token = tls(options), options.get("token") or os.environ.get(VARIABLE) or None
    port = PORT if files is None else TLS_PORT
    return Settings(
        tuple((host.strip("[]"), given or port) for host, given in address.hosts),
        None if files is None else Tls(*files),
        None if token is None else _read_token(token),
        str(options.get("prefix", "")),
        float(str(options.get("lock_delay", 0.0))),
        float(str(options.get("session_ttl_min", SESSION_TTL_MIN_S))),
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
        int(str(options.get("pool", POOL))),
    )
