"""What a pool knows of a connection, and how one is made."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeAlias

from ....world import World
from .http1 import Response


class Node(NamedTuple):
    """One node of a service."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    connect_timeout: float

    @property
    def where(self) -> str:
        """Its address for messages, and as the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


class Connection(Protocol):
    """One connection to a node, used by one caller at a time."""

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more: it failed, or owes an answer that nobody waits for."""
        ...

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        """Send a request and wait for its answer.

        Raises Unavailable when it was not sent, OutcomeUnknown when no answer came. It is closed
        then, and when the caller is cancelled or interrupted.
        """
        ...

    def closed_by_node(self) -> bool:
        """Look, without waiting, whether the node has closed it."""
        ...

    def close(self) -> None:
        """Close, from any thread: whoever waits for an answer ends at once."""
        ...


Connect: TypeAlias = Callable[[World, Node, tuple[tuple[str, str], ...]], Awaitable[Connection]]
"""Connects to a node, whose requests will carry the headers."""
