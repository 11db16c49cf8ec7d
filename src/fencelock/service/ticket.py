"""A waiter of the service, and the call that waits for the answers of several."""

from __future__ import annotations

from ..model import Request
from ..world import Signal
from .call import Call


class Ticket:
    """One waiter. It is the signal that the engine sets for it, from any thread."""

    __slots__ = (
        "claim_until",
        "identity",
        "is_nameless",
        "joined",
        "kept_until",
        "leave_by",
        "look_at",
        "poll",
        "position",
        "request",
        "wake",
        "withdrawn",
        "woken",
    )

    def __init__(self, request: Request, identity: str, wake: Signal) -> None:
        self.request = request
        self.identity = identity
        self.wake = wake
        """The signal of the sweeper, which is set when there is no poll."""
        self.poll: Poll | None = None
        self.woken = True
        self.look_at = 0.0
        self.position: int | None = None
        self.kept_until = 0.0
        self.claim_until = 0.0
        """By when a poll has to come, if there is none when the ticket's turn has come."""
        self.withdrawn = False
        """Its lock was given back, or its request was withdrawn."""
        self.joined = False
        """Whether the engine may have put its request into the queue."""
        self.leave_by: float | None = None
        """When no more is tried to leave the queue, while that was tried and not confirmed."""
        self.is_nameless = False
        """Whether the id was made here and told to nobody, so that no call can come for it."""

    def set(self) -> None:
        self.woken = True
        poll = self.poll
        (self.wake if poll is None else poll.call.wake).set()

    def clear(self) -> None:
        self.woken = False

    def is_set(self) -> bool:
        return self.woken


class Poll:
    """One call that waits for the answers of its tickets."""

    def __init__(self, call: Call, inbox: str | None) -> None:
        self.call = call
        self.inbox = inbox
        self.tickets: dict[str, Ticket] = {}
        self.superseded = False
        self.joined: set[str] = set()
        """Owners that the engine may have put into the queue because of this call."""
