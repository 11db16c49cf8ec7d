"""The row of a lock in the table, and the mutations that change it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from ...model import Holding

COMMIT_TIMESTAMP = "spanner.commit_timestamp()"
SLACK_US = 100_000  # how much longer a lease is in Spanner: clocks of its servers differ by less
SIDE = "\x1f"  # separates a name from the suffix of a row that is no lock: in no name or prefix

Write: TypeAlias = tuple[Literal["insert_or_update", "update", "delete"], dict[str, str | None]]
"""A mutation and the columns that it writes: all NOT NULL ones, where it may insert."""

Values: TypeAlias = list[str | None]
"""A row of a reply."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One lock as a transaction saw it, by the server's clock."""

    name: str
    owner: str | None
    fence: int
    ends_us: int
    ttl_us: int
    meta: str
    revoked: tuple[str | None, str]  # the owner of the last revocation, and its reason
    now_us: int

    @property
    def held(self) -> bool:
        return self.owner is not None and self.now_us < self.ends_us

    @property
    def left(self) -> float:
        return (self.ends_us - self.now_us) / 1e6

    def is_held_by(self, owner: str) -> bool:
        return self.held and self.owner == owner

    def holding(self) -> Holding:
        """Return the holder as it is shown."""
        ttl, age = self.ttl_us / 1e6, max(self.now_us - self.fence, 0) / 1e6
        left = min(self.left, ttl)
        return Holding(self.name, self.fence, ttl, age, left, json.loads(self.meta))

    # The mutations. A row that has the reason of a revocation is not deleted.

    def granted(self, owner: str, ttl: float, meta: str) -> Write:
        """Return the mutation for a new holder, whose fence is the commit timestamp."""
        more = {"owner": owner, "granted_at": COMMIT_TIMESTAMP, "meta": meta}
        return "insert_or_update", self._lasting(ttl) | more

    def renewed(self, ttl: float) -> Write:
        return "update", self._lasting(ttl)

    def freed(self) -> Write:
        if self.revoked[0] is None:
            return "delete", {"name": self.name}
        return "update", self._ended()

    def taken(self, reason: str) -> Write:
        """Return the mutation that revokes the lock: its former owner can read the reason."""
        return "update", self._ended() | {"revoked_owner": self.owner, "revoked_reason": reason}

    def remembered(self, item: str, number: int, keep: float) -> Write:
        """Return the mutation that raises a number, in a row that is no lock."""
        numbers = self.numbers()
        numbers[item] = max(number, numbers.get(item, number))
        ends_at = moment(max(self.ends_us, self.now_us + int(keep * 1e6) + SLACK_US))
        more = {"ttl_us": "0", "meta": json.dumps(numbers)}
        return "insert_or_update", {"name": self.name, "ends_at": ends_at, **more}

    def _lasting(self, ttl: float) -> dict[str, str | None]:
        ttl_us = round(ttl * 1e6)
        ends_at = moment(self.now_us + ttl_us + SLACK_US)
        return {"name": self.name, "ends_at": ends_at, "ttl_us": str(ttl_us)}

    def _ended(self) -> dict[str, str | None]:
        return {"name": self.name, "ends_at": moment(self.now_us), "owner": None}

    def numbers(self) -> dict[str, int]:
        return json.loads(self.meta) if self.now_us < self.ends_us else {}


def read(values: Values) -> Row:
    """Decode one row of a reply; where the table has no such row, the lock is free."""
    name, owner, granted_us, ends_us, ttl_us, meta, revoked, reason, now_us = values
    return Row(
        str(name),
        owner,
        int(granted_us or 0),
        int(ends_us or 0),
        int(ttl_us or 0),
        meta or "{}",
        (revoked, reason or ""),
        int(now_us or 0),
    )


def moment(micros: int) -> str:
    """Return a timestamp in the text format that Spanner reads."""
    return (_BEGIN + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
