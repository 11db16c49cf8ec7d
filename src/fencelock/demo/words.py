"""What the demo and its workers agree on: the lock, the length of a lease, and the messages between them.

A worker sends one message per line, as JSON, on its standard output.  It waits for a line on its standard input where
it says so; the line's content does not matter.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

LOCK = "seatmap"
TTL_S = 1.5

# ready    connected, waits for a line to begin
# read     holds the lock and has seen that a seat is free; waits for a line: the customer pays
# sold     the store has taken the sale
# refused  the store has refused the sale: the fence is older than one that it has seen
# lost     the lease is lost, and this is why
# done     there is no free seat left
What = Literal["ready", "read", "sold", "refused", "lost", "done"]


class Message(NamedTuple):
    """One thing that happened in a worker."""

    what: What
    seat: str = ""
    customer: str = ""
    fence: int = 0
    highest: int = 0
    """The fence that the store had seen when it refused."""
    reason: str = ""

    def to_line(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_line(cls, line: str) -> Message:
        """Read a line; ValueError when it is only part of one."""
        return cls(**json.loads(line))
