"""Remember numbers for names in the file, apart from their holders.

All items of a name are kept until the latest of their ends, on the boot clock as leases are. Items
past that end are deleted when something is next written for the name, or when the file is purged.
"""

from __future__ import annotations

from .wire.database import Database

DROP_OLD = """
DELETE FROM memos WHERE name = ?1 AND (SELECT MAX(until) FROM memos WHERE name = ?1) <= ?2
"""
REMEMBER = """
INSERT INTO memos VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name, item) DO UPDATE SET
  number = MAX(number, excluded.number),
  keep = CASE WHEN excluded.until > until THEN excluded.keep ELSE keep END,
  until = MAX(until, excluded.until)
"""
RECALL = """
SELECT item, number FROM memos
WHERE name = ?1 AND (SELECT MAX(until) FROM memos WHERE name = ?1) > ?2
"""
FORGET = "DELETE FROM memos WHERE name = ?"


class Memos:
    """The memos of one file."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def remember(self, now: float, name: str, item: str, number: int, keep: float) -> None:
        """Write a number down that only grows; no item of the name is kept shorter for it."""

        def body(now: float) -> None:
            self._db.execute(DROP_OLD, (name, now))
            self._db.execute(REMEMBER, (name, item, number, keep, now + keep))

        self._db.transaction(now, body)

    def recall(self, now: float, name: str) -> dict[str, int]:
        """Return what is remembered for a name."""
        return dict(self._db.read(now, RECALL, (name, now)))

    def forget(self, now: float, name: str) -> None:
        """Delete all items of a name."""
        self._db.transaction(now, lambda _: self._db.execute(FORGET, (name,)).rowcount)
