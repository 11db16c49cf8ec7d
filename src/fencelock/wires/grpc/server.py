"""The address of a server, and what every connection to it needs."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from .call import HeaderCache


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
