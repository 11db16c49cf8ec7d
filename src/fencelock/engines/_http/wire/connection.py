"""The interface of a connection to a node, and of the function that makes one."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeAlias

from ....world import World
from .http1 import Response


class Node(NamedTuple):
    """The address of one node, and how to connect."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    connect_timeout: float

    @property
    def where(self) -> str:
        """Its address for messages and the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


class Connection(Protocol):
    """One connection to a node, used by one caller at a time."""

    @property
    def is_closed(self) -> bool:
        """Whether it cannot be used any more: it failed, or its response has lost its caller."""
        ...

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        """Send a request and return its response.

        Raise Unavailable if it was not sent, OutcomeUnknown if no response came. The connection is
        closed then, and if the caller is cancelled or interrupted.
        """
        ...

    def closed_by_node(self) -> bool:
        """Return, without waiting, whether the node has closed it."""
        ...

    def close(self) -> None:
        """Close, from any thread: a call in progress ends at once."""
        ...


Connect: TypeAlias = Callable[[World, Node, tuple[tuple[str, str], ...]], Awaitable[Connection]]
"""Connects to a node; the headers are sent with each request."""
