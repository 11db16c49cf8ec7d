"""What the demo and its workers agree on: the lock, its ttl, and the messages between them.

A worker sends one message per line, as JSON, on its standard output.  Where it waits for its parent
it reads one line of its standard input; what that line says does not matter.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

LOCK = "seatmap"
TTL_S = 2.0

# ready    is connected; waits for the parent before it begins
# read     holds the lock and sees that a seat is free; waits for the parent: the customer pays
# sold     the store has taken the sale
# refused  the store has refused the sale, for it has seen a higher fence
# lost     the lease is lost, and why
# done     no seat is free any more
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
