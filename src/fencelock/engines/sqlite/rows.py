"""What the ledger asks the file, and what it learns: the longer statements, and rows with names."""

from __future__ import annotations

from typing import NamedTuple

# The two statements of a lock that nobody contends for, each a transaction by itself.  They change
# nothing when anything is unusual, and the long way decides.  A trigger keeps the highest fence.
TAKE_FREE = """
INSERT INTO locks SELECT ?, ?, ?, ?, ?, ?, 1, ?
WHERE ? > (SELECT fence FROM locks WHERE name = '')
  AND NOT EXISTS (SELECT 1 FROM waiters WHERE name = ?)
  AND NOT EXISTS (SELECT 1 FROM locks WHERE name = ?)
"""
GIVE_BACK = """
DELETE FROM locks WHERE name = ? AND owner = ? AND expires_at > ?
  AND NOT EXISTS (SELECT 1 FROM waiters WHERE name = ?)
"""

CURRENT = """
SELECT mark.fence, l.owner, l.fence, l.expires_at, l.claimed, l.meta,
       EXISTS (SELECT 1 FROM waiters WHERE waiters.name = ?)
FROM locks mark LEFT JOIN locks l ON l.name = ? WHERE mark.name = ''
"""

STIRRED = """
SELECT w.name, w.owner, w.lapsed OR (l.owner IS w.owner AND l.expires_at > ?)
FROM waiters w LEFT JOIN locks l ON l.name = w.name
WHERE w.inbox = ?
  AND (l.name IS NULL OR l.expires_at <= ? OR (l.owner = w.owner AND NOT l.claimed))
"""
SOONEST = """
SELECT MIN(l.expires_at) FROM waiters w JOIN locks l ON l.name = w.name
WHERE w.inbox = ? AND l.expires_at > ?
"""


class Call(NamedTuple):
    """A waiter that was handed the lock and has to be told."""

    name: str
    owner: str
    inbox: str


class Answer(NamedTuple):
    """What a request came to: a fence, or who is in the way."""

    fence: int = 0
    remaining: float = 0.0
    position: int = 0
    holder: str = ""
    call: Call | None = None


class Row(NamedTuple):
    """What is known of one name at the beginning of a transaction."""

    mark: int
    owner: str | None
    fence: int
    expires_at: float
    claimed: int
    meta: str
    queued: int
