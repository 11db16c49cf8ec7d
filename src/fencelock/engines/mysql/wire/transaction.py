"""What ``mode=row`` knows of a connection whose transaction is a lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from ....world import World
from ..settings import Settings


class Transaction(Protocol):
    """One connection of the driver's, with the transaction that it is in."""

    connection: Any
    """What a holder is given."""
    identity_lock: str
    """The lock by GET_LOCK, as SQL, that its session has: whoever has it is that session."""
    limits: str
    """What its session was last set to, for being idle and for waiting; empty if unknown."""
    socket: int
    """The file descriptor to watch for its end."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether its transaction goes on, as the last response of the server says."""
        ...

    async def query(self, statements: list[str], timeout: float) -> list[tuple[list[Any], int]]:
        """Run statements; return the rows and the insert id of each.

        Raise ServerError, Unavailable or OutcomeUnknown.
        """
        ...

    async def query_if_idle(self, statement: str, timeout: float) -> bool:
        """Run a statement unless the holder is just using the connection; say whether it ran."""
        ...

    def close(self) -> None:
        """End the connection, and with it a transaction that goes on."""
        ...

    def disconnected(self) -> None:
        """Close it after the server did, unless its holder is just using it and finds out."""
        ...


Connect: TypeAlias = Callable[[World, Settings], Awaitable[Transaction]]
"""Connects for a transaction that a holder may join."""
