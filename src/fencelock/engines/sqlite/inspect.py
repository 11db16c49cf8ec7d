"""Read the holders and waiters in one file, for those who inspect the locks."""

from __future__ import annotations

import json
from typing import Any

from ...model import Holding, Share, State, Waiting, role_of, share_shown
from .wire.database import Database

# The kind of a row: 0 for a lock; for the others what their keys begin with (shares.py).
HELD = """
SELECT name, 0, fence, ttl, since, expires_at, meta, 1, 1, NULL FROM locks
WHERE {lock} AND expires_at > ?2 AND claimed
UNION ALL
SELECT substr(key, 2), unicode(key), fence, ttl, since, expires_at, meta, units, capacity, slot
FROM shares WHERE {share} AND expires_at > ?2 AND claimed
ORDER BY 1, 2, 3
"""
HELD_NAME = HELD.format(lock="name = ?1", share="key IN (char(1) || ?1, char(2) || ?1)")
HELD_PREFIX = HELD.format(
    lock="substr(name, 1, length(?1)) = ?1", share="substr(key, 2, length(?1)) = ?1"
)
QUEUE = """
SELECT 0, place, since, meta, 1, 1 FROM waiters WHERE name = ?1
UNION ALL
SELECT unicode(key), place, since, meta, units, capacity FROM share_waiters
WHERE key IN (char(1) || ?1, char(2) || ?1)
ORDER BY 1, 2
"""
LIMIT = "SELECT capacity FROM share_names WHERE key = char(1) || ?"
JOURNAL_AND_FENCE = """
SELECT j.journal_mode, (SELECT fence FROM locks WHERE name='') FROM pragma_journal_mode j
"""


def state(database: Database, now: float, name: str) -> State:
    """Return all that is known of a name, within a transaction."""
    held = database.execute(HELD_NAME, (name, now)).fetchall()
    waiting = database.execute(QUEUE, (name,)).fetchall()
    limit = database.execute(LIMIT, (name,)).fetchone()
    return State(
        name,
        tuple(_holding(row, now) for row in held),
        tuple(
            Waiting(now - since, json.loads(meta), role_of(_share(kind, units, capacity)))
            for kind, _, since, meta, units, capacity in waiting
        ),
        limit and limit[0],
    )


def holdings(database: Database, now: float, prefix: str) -> list[Holding]:
    """Return the holders of all names with a prefix."""
    return [_holding(row, now) for row in database.read(now, HELD_PREFIX, (prefix, now))]


def _holding(row: tuple[Any, ...], now: float) -> Holding:
    name, kind, fence, ttl, since, expires_at, meta, units, capacity, slot = row
    share = share_shown(_share(kind, units, capacity, slot))
    return Holding(name, fence, ttl, now - since, expires_at - now, json.loads(meta), *share)


def _share(kind: int, units: int, capacity: int, slot: int | None = None) -> Share | None:
    if not kind:
        return None
    return Share("semaphore" if kind == 1 else "rwlock", units, capacity, slot)


def journal_and_fence(database: Database, now: float) -> tuple[str, int]:
    """Return the journal mode of a file and its highest fence."""
    ((journal_mode, fence),) = database.read(now, JOURNAL_AND_FENCE, ())
    return str(journal_mode), int(fence)
