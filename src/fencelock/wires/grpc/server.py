"""The address of a server, and the header blocks of requests to it."""

from __future__ import annotations

import ssl
from math import ceil
from typing import NamedTuple, TypeAlias

from .hpack import write_block

Metadata: TypeAlias = tuple[tuple[str, str], ...]

BLOCKS_MAX = 64


class HeaderBlocks(dict[tuple[str, float | None, Metadata], bytes]):
    """Header blocks by method, seconds after which the server may give up, and metadata.

    Each is encoded when it is first looked up.
    """

    def __init__(self, authority: str, secure: bool) -> None:
        super().__init__()
        self._authority = authority
        self._scheme = "https" if secure else "http"

    def __missing__(self, key: tuple[str, float | None, Metadata]) -> bytes:
        method, within, about = key
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
        if len(self) >= BLOCKS_MAX:
            self.clear()
        block = self[key] = write_block((*headers, *about))
        return block


class Server(NamedTuple):
    """A server to connect to, and the header blocks of requests to it."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    headers: HeaderBlocks

    @classmethod
    def at(cls, address: str, tls: ssl.SSLContext | None) -> Server:
        """Read an address: ``host:port``, an IPv6 address in brackets."""
        host, _, port = address.rpartition(":")
        return cls(host.strip("[]"), int(port), tls, HeaderBlocks(address, tls is not None))
