"""How a lock looks in the table, and the conditional writes that change it.

The attributes are those of AWS's lock client for Java, which calls the partition key ``key`` unless
told otherwise: ``ownerName``, ``leaseDuration`` (milliseconds, as a string), ``recordVersionNumber``
and, once it is released, ``isReleased``. So that client waits for our locks and we for its. What is
ours alone: ``fence``, ``meta``, ``since``, ``revokedOwner``, ``revokedReason``, and ``expires``, by
which DynamoDB deletes items that nobody has touched for a day.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ...model import Holding, Meta, Request, next_fence

KEY, EXPIRES = "key", "expires"
KEEP_S = 86_400  # how long a record outlasts its lease: far more than clocks differ
UNKNOWN_TTL_S = 86_400.0  # of a record whose leaseDuration we cannot read
SIDE = "\x1f"  # parts a name from what is not a lock: no name and no prefix has it

Item: TypeAlias = Mapping[str, Any]
"""An item as DynamoDB sends it, each value with its type."""
Write: TypeAlias = dict[str, Any]
"""The parameters of an UpdateItem, without the table."""

_FREE = "attribute_not_exists(#key) OR attribute_exists(isReleased)"
_OURS = "ownerName = :owner AND attribute_not_exists(isReleased)"
_HELD = (
    "SET ownerName = :owner, leaseDuration = :ms, recordVersionNumber = :version, #expires = :end"
)
_RELEASED = "SET isReleased = :yes, #expires = :end"


class Record(NamedTuple):
    """One item that is or was held as a lock."""

    name: str
    owner: str
    version: str
    ttl: float
    fence: int
    released: bool
    meta: str
    since_us: int
    """The wall clock of whoever acquired it: shown, never judged by."""
    revoked: tuple[str, str]
    """From which owner it was last taken, and why."""

    def is_held_by(self, owner: str) -> bool:
        return self.owner == owner and not self.released

    def holding(self, left: float, wall_us: int) -> Holding:
        """What is shown of a holder."""
        meta: Meta = json.loads(self.meta)
        age = max(wall_us - self.since_us, 0) / 1e6 if self.since_us else 0.0
        return Holding(self.name, self.fence, self.ttl, age, min(left, self.ttl), meta)


def read(item: Item, prefix: str) -> Record:
    """Read an item, which may be another program's."""
    version = _text(item, "recordVersionNumber")
    return Record(
        _text(item, KEY).removeprefix(prefix),
        _text(item, "ownerName"),
        version,
        _ttl(_text(item, "leaseDuration")),
        int(item.get("fence", {}).get("N", 0)),
        "isReleased" in item or not version,
        _text(item, "meta") or "{}",
        int(item.get("since", {}).get("N", 0)),
        (_text(item, "revokedOwner"), _text(item, "revokedReason")),
    )


def _text(item: Item, attribute: str) -> str:
    return str(item.get(attribute, {}).get("S", ""))


def _ttl(milliseconds: str) -> float:
    return int(milliseconds) / 1000 if milliseconds.isdecimal() else UNKNOWN_TTL_S


def key_of(text: str) -> Item:
    """The key of an item."""
    return {KEY: {"S": text}}


def acquired(key: str, request: Request, version: str, wall_us: int, dead: str | None) -> Write:
    """Take a lock that is free, or whose record still has the version that is known to be dead."""
    values = _values(request.owner, request.ttl, version, wall_us)
    values |= {
        ":one": {"N": "1"},
        ":base": {"N": str(next_fence(0, wall_us) - 1)},
        ":meta": {"S": request.meta},
        ":now": {"N": str(wall_us)},
    }
    condition = _FREE
    if dead is not None:
        condition += " OR recordVersionNumber = :dead"
        values[":dead"] = {"S": dead}
    change = (
        f"{_HELD}, fence = if_not_exists(fence, :base) + :one, meta = :meta, since = :now"
        " REMOVE isReleased"
    )
    return _update(key, change, condition, values, "UPDATED_NEW")


def renewed(key: str, owner: str, ttl: float, version: str, wall_us: int) -> Write:
    """Give a lock of this owner a new version and a new duration."""
    return _update(key, _HELD, _OURS, _values(owner, ttl, version, wall_us), "UPDATED_NEW")


def released(key: str, owner: str, wall_us: int) -> Write:
    """Free a lock of this owner. The item stays for a while, with its fence."""
    return _update(key, _RELEASED, _OURS, {":owner": {"S": owner}, **_freed(wall_us)})


def buried(key: str, version: str, wall_us: int) -> Write:
    """Free a lock whose record still has the version that is known to be dead."""
    condition = "recordVersionNumber = :dead AND attribute_not_exists(isReleased)"
    return _update(key, _RELEASED, condition, {":dead": {"S": version}, **_freed(wall_us)})


def revoked(key: str, owner: str, reason: str, wall_us: int) -> Write:
    """Take a lock from this owner, and leave word for it."""
    change = f"{_RELEASED}, revokedOwner = :owner, revokedReason = :reason"
    values = {":owner": {"S": owner}, ":reason": {"S": reason}, **_freed(wall_us)}
    return _update(key, change, _OURS, values)


def _freed(wall_us: int) -> dict[str, Any]:
    return {":yes": {"S": "1"}, ":end": _end(wall_us, 0.0)}


def _values(owner: str, ttl: float, version: str, wall_us: int) -> dict[str, Any]:
    return {
        ":owner": {"S": owner},
        ":ms": {"S": str(round(ttl * 1000))},
        ":version": {"S": version},
        ":end": _end(wall_us, ttl),
    }


def _end(wall_us: int, ttl: float) -> Item:
    """When DynamoDB may delete the item, in seconds of the wall clock."""
    return {"N": str(int(wall_us / 1e6 + ttl) + KEEP_S)}


def _update(
    key: str, change: str, condition: str, values: dict[str, Any], answer: str = "NONE"
) -> Write:
    names = {"#key": KEY, "#expires": EXPIRES}
    return {
        "Key": key_of(key),
        "UpdateExpression": change,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {n: names[n] for n in names if n in change + condition},
        "ExpressionAttributeValues": values,
        "ReturnValues": answer,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
