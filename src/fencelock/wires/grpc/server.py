"""Where a server is, and how it is spoken to."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from .call import Heads


class Server(NamedTuple):
    """Where to connect to."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    heads: Heads

    @classmethod
    def at(cls, address: str, tls: ssl.SSLContext | None) -> Server:
        """``address`` is ``host:port``, an IPv6 address in brackets."""
        host, _, port = address.rpartition(":")
        return cls(host.strip("[]"), int(port), tls, Heads(address, tls is not None))
