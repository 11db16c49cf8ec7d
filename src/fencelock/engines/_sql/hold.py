"""A lock that a session, or its transaction, holds for an owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from ...model import Grant, Request

RENEWAL_MIN_S = 0.2

S = TypeVar("S")


def renewal_timeout(grants: Sequence[Grant]) -> float:
    """Return how many seconds a renewal may take so that a retry still comes in time."""
    return max(RENEWAL_MIN_S, min(grant.ttl for grant in grants) / 5)


class Hold(Generic[S]):
    """One lock, and the session that holds it."""

    __slots__ = (
        "fence",
        "key",
        "meta",
        "name",
        "releaser",
        "session",
        "shown",
        "taken_at",
        "ttl",
        "until",
    )

    def __init__(self, request: Request, key: int, session: S, fence: int, asked_at: float) -> None:
        self.name = request.name
        self.key = key
        """The numeric key of the lock on the server, where it has one."""
        self.session = session
        self.fence = fence
        self.ttl = request.ttl
        self.taken_at = asked_at
        self.until = asked_at + request.ttl
        self.meta = request.meta
        self.shown = False
        """Whether a row of the database may show who holds it."""
        self.releaser: object = None
        """Identifies the call that is unlocking it."""


class TransactionHold(Hold[S]):
    """A lock, and the transaction that is the lock."""

    __slots__ = ("failed", "used", "xid")

    def __init__(
        self, request: Request, transaction: S, fence: int, asked_at: float, xid: str
    ) -> None:
        super().__init__(request, 0, transaction, fence, asked_at)
        self.xid = xid
        """The id under which the server keeps the transaction's status."""
        self.failed = False
        """Whether its body did not end well: then the transaction is rolled back."""
        self.used = False
        """Whether the holder was given the connection, and may have changed it in any way."""
