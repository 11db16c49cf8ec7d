"""The address of a server, its TLS context and the header blocks of requests to it."""

from __future__ import annotations

import ssl
from math import ceil
from typing import NamedTuple

from .call import Metadata
from .hpack import write_block

KEPT_MAX = 64


class HeaderCache:
    """Header blocks of requests to one server, each encoded once."""

    def __init__(self, authority: str, secure: bool) -> None:
        self._authority = authority
        self._scheme = "https" if secure else "http"
        self._made: dict[tuple[str, float | None, Metadata], bytes] = {}

    def block(self, method: str, within: float | None, about: Metadata) -> bytes:
        """Return a header block; ``within`` is the time after which the server may give up."""
        return self._made.get((method, within, about)) or self._make(method, within, about)

    def _make(self, method: str, within: float | None, about: Metadata) -> bytes:
        headers = [
            (":method", "POST"),
            (":scheme", self._scheme),
            (":path", method),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fencelock"),
        ]
        if within is not None:
            headers.append(("grpc-timeout", f"{max(1, ceil(within * 1000))}m"))
        if len(self._made) >= KEPT_MAX:
            self._made.clear()
        made = self._made[method, within, about] = write_block((*headers, *about))
        return made


class Server(NamedTuple):
    """Where to connect to."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    headers: HeaderCache

    @classmethod
    def at(cls, address: str, tls: ssl.SSLContext | None) -> Server:
        """``address`` is ``host:port``, an IPv6 address in brackets."""
        host, _, port = address.rpartition(":")
        return cls(host.strip("[]"), int(port), tls, HeaderCache(address, tls is not None))
