"""The item of a lock in the table, and the conditional writes that change it.

The attributes are those of AWS's lock client for Java: ``key`` (that client's default name),
``ownerName``, ``leaseDuration`` (milliseconds, as text), ``recordVersionNumber`` and, once it is
released, ``isReleased``. So that client waits for our locks, and we for its. Ours alone are
``fence``, ``meta``, ``since``, ``revokedOwner``, ``revokedReason``, and ``expires``, by which
DynamoDB deletes an item a day after the end of its last lease.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ...model import Holding, Request, next_fence

KEY, EXPIRES = "key", "expires"
KEEP_S = 86_400  # how long a record outlasts its lease: far more than clocks differ
UNKNOWN_TTL_S = 86_400.0  # of a record whose leaseDuration we cannot read
NUMBER = "n:"  # the prefix of the attributes of a memo, before the name of its item
SIDE = "\x1f"  # separates a name from the suffix of an item that is no lock: in no name or prefix

Item: TypeAlias = Mapping[str, Any]  # as DynamoDB sends it, each value with its type
Write: TypeAlias = dict[str, Any]  # the parameters of an UpdateItem, without the table

_FREE = "(attribute_not_exists(#key) OR attribute_exists(isReleased))"
_OURS = "ownerName = :owner AND attribute_not_exists(isReleased)"
_HOLD = (
    "SET ownerName = :owner, leaseDuration = :ms, recordVersionNumber = :version, expires = :end"
)
_FREED = "SET isReleased = :yes, expires = :end"


class Record(NamedTuple):
    """One item that is or was held as a lock."""

    name: str
    owner: str
    version: str
    ttl: float
    fence: int
    released: bool
    meta: str
    since_us: int  # by the wall clock of its client: only shown, nothing is decided by it
    revoked: tuple[str, str]  # the owner of the last revocation, and its reason

    def holding(self, left: float, wall_us: int) -> Holding:
        """Return the holder as it is shown."""
        age = max(wall_us - self.since_us, 0) / 1e6 if self.since_us else 0.0
        return Holding(self.name, self.fence, self.ttl, age, left, json.loads(self.meta))


def read(item: Item, prefix: str) -> Record:
    """Return the record of an item, which may be another program's; an empty item is free."""
    text = {attribute: str(value.get("S", "")) for attribute, value in item.items()}.get
    ms, version = text("leaseDuration", ""), text("recordVersionNumber", "")
    return Record(
        text(KEY, "").removeprefix(prefix),
        text("ownerName", ""),
        version,
        int(ms) / 1000 if ms.isdecimal() else UNKNOWN_TTL_S,
        int(item.get("fence", {}).get("N", 0)),
        "isReleased" in item or not version,
        text("meta", "{}"),
        int(item.get("since", {}).get("N", 0)),
        (text("revokedOwner", ""), text("revokedReason", "")),
    )


def key_of(text: str) -> Item:
    return {KEY: {"S": text}}


def acquired(key: str, request: Request, version: str, wall_us: int, dead: str | None) -> Write:
    """Take a lock that is free, or whose record still has the version that is known to be dead."""
    values = _held(request.owner, request.ttl, version, wall_us)
    values |= {":meta": {"S": request.meta}, ":now": {"N": str(wall_us)}, ":one": {"N": "1"}}
    values[":base"] = {"N": str(next_fence(0, wall_us) - 1)}
    condition = _FREE
    if dead is not None:
        condition += " OR recordVersionNumber = :dead"
        values[":dead"] = {"S": dead}
    fence = "fence = if_not_exists(fence, :base) + :one"
    change = f"{_HOLD}, {fence}, meta = :meta, since = :now REMOVE isReleased"
    write = _update(key, change, condition, values)
    return {**write, "ExpressionAttributeNames": {"#key": KEY}, "ReturnValues": "UPDATED_NEW"}


def renewed(key: str, owner: str, ttl: float, version: str, wall_us: int) -> Write:
    """Give a lock of this owner a new version and a new duration."""
    return _update(key, _HOLD, _OURS, _held(owner, ttl, version, wall_us))


def released(key: str, owner: str, wall_us: int) -> Write:
    """Free a lock of this owner. The item stays for a while, with its fence."""
    return _update(key, _FREED, _OURS, {":owner": {"S": owner}, **_free(wall_us)})


def freed_if_dead(key: str, dead: str, wall_us: int) -> Write:
    """Free a lock whose record still has the version that is known to be dead."""
    condition = "recordVersionNumber = :dead AND attribute_not_exists(isReleased)"
    return _update(key, _FREED, condition, {":dead": {"S": dead}, **_free(wall_us)})


def revoked(key: str, owner: str, reason: str, wall_us: int) -> Write:
    """Take a lock from this owner, and store the reason for it."""
    change = f"{_FREED}, revokedOwner = :owner, revokedReason = :reason"
    values = {":owner": {"S": owner}, ":reason": {"S": reason}, **_free(wall_us)}
    return _update(key, change, _OURS, values)


def raised(key: str, attribute: str, number: int) -> Write:
    """Set a number unless it is as high already."""
    condition = "attribute_not_exists(#number) OR #number < :number"
    write = _update(key, "SET #number = :number", condition, {":number": {"N": str(number)}})
    return {**write, "ExpressionAttributeNames": {"#number": attribute}}


def numbers(item: Item) -> dict[str, int]:
    """Return the numbers of a memo, by item."""
    return {a.removeprefix(NUMBER): int(n["N"]) for a, n in item.items() if a.startswith(NUMBER)}


def held_below(prefix: str) -> dict[str, Any]:
    """Return the parameters of a Scan for the held locks whose names begin with a prefix."""
    return {
        "FilterExpression": "begins_with(#key, :prefix) AND attribute_not_exists(isReleased)"
        " AND attribute_exists(recordVersionNumber)",
        "ExpressionAttributeNames": {"#key": KEY},
        "ExpressionAttributeValues": {":prefix": {"S": prefix}},
    }


def _held(owner: str, ttl: float, version: str, wall_us: int) -> dict[str, Any]:
    texts = {":owner": owner, ":ms": str(round(ttl * 1000)), ":version": version}
    end = int(wall_us / 1e6 + ttl) + KEEP_S
    return {**{name: {"S": text} for name, text in texts.items()}, ":end": {"N": str(end)}}


def _free(wall_us: int) -> dict[str, Any]:
    return {":yes": {"S": "1"}, ":end": {"N": str(wall_us // 1_000_000 + KEEP_S)}}


def _update(key: str, change: str, condition: str, values: dict[str, Any]) -> Write:
    return {
        "Key": key_of(key),
        "UpdateExpression": change,
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
