"""What ``mode=row`` knows of a connection whose transaction is a lock."""

from __future__ import annotations

from typing import Any, Protocol


class Transaction(Protocol):
    """One connection of the driver's, with the transaction that it is in."""

    connection: Any
    """What a holder is given."""
    badge: str
    """A lock by GET_LOCK that its session has: whoever has it is that session, and no other."""
    limits: str
    """What its session was last told of how long it may be idle and wait; empty if unknown."""
    socket: int
    """What to listen to for its end."""

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether its transaction goes on, as the server said with its last answer."""
        ...

    async def ask(self, statements: list[str], within: float) -> list[tuple[list[Any], int]]:
        """Have statements run; the rows and the insert id of each.

        Raise ServerError, Unavailable or OutcomeUnknown.
        """
        ...

    async def whisper(self, statement: str, within: float) -> bool:
        """The same, unless its holder is using the connection just now: then it is left alone."""
        ...

    def close(self) -> None:
        """End the connection, and with it a transaction that goes on."""
        ...

    def hang_up(self) -> None:
        """The server has ended it: close it, unless its holder is just using it and finds out."""
        ...
