"""What is remembered for a name after the process that did it is gone: an item beside the lock's.

Each number is an attribute of its own, which a conditional write raises or lets be. DynamoDB
deletes the item some time after ``expires``, which is only ever moved out; it is moved first, so
that no item stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from .records import EXPIRES, SIDE, key_of
from .table import Table
from .wire.errors import Refused

MARK = "n:"  # before the name of an item, in the name of its attribute


class Memos:
    """What the clients of one table remember."""

    def __init__(self, table: Table, prefix: str, wall_us: Callable[[], int]) -> None:
        self._table = table
        self._prefix = prefix
        self._wall_us = wall_us

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        end = ceil(self._wall_us() / 1e6 + keep)
        await self._raise(name, EXPIRES, end)
        await self._raise(name, MARK + item, number)

    async def _raise(self, name: str, attribute: str, number: int) -> None:
        """Set a number unless it is as high already."""
        write: dict[str, Any] = {
            "Key": key_of(self._key(name)),
            "UpdateExpression": "SET #a = :n",
            "ConditionExpression": "attribute_not_exists(#a) OR #a < :n",
            "ExpressionAttributeNames": {"#a": attribute},
            "ExpressionAttributeValues": {":n": {"N": str(number)}},
        }
        try:
            await self._table.call("update_item", **write)
        except Refused:
            pass

    async def recall(self, name: str) -> Mapping[str, int]:
        found = await self._table.get(self._key(name)) or {}
        return {
            attribute.removeprefix(MARK): int(value["N"])
            for attribute, value in found.items()
            if attribute.startswith(MARK)
        }

    async def forget(self, name: str) -> None:
        await self._table.call("delete_item", Key=key_of(self._key(name)))

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}{SIDE}memo"
