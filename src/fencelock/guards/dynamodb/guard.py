"""The DynamoDB guard of both flavors: each method is one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..aws import watched
from ..fence import Fenced
from .calls import Call, Item, Rules
from .request import mark_of

__all__ = ["AsyncDynamoDBGuard", "DynamoDBGuard"]


class DynamoDBGuard(Rules):
    """Reads and writes items for whoever has the highest fence.

    ``table`` is boto3's Table; or a low-level client, and then with ``table_name``. ``attribute``
    is where an item keeps its mark. ``expires`` names the table's attribute for DynamoDB's Time To
    Live: what was deleted then goes away after ``keep_seconds``, with its mark.
    """

    def enter(self, key: Item, lease: Fenced | int, *, name: str | None = None) -> dict[str, Any]:
        """Raise the mark and read the item, in one step: what every tenure begins with.

        An item that was not there has only its key and the mark afterward.
        """
        found: dict[str, Any] = self._do(self._entering(key, self._claim(lease, name)))
        return dict(found["Attributes"])

    def put(self, item: Item, lease: Fenced | int, *, name: str | None = None, **more: Any) -> Any:
        """Write a whole item, or raise StaleFence. ``more`` is as for ``put_item``."""
        return self._do(self._putting(item, self._claim(lease, name), more))

    def update(
        self, key: Item, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> Any:
        """Change an item by an UpdateExpression, or raise StaleFence. As ``update_item``."""
        return self._do(self._updating({**more, "Key": dict(key)}, self._claim(lease, name)))

    def delete(self, key: Item, lease: Fenced | int, *, name: str | None = None) -> None:
        """Remove all of an item but its key and the mark, or raise StaleFence."""
        self._do(self._deleting(key, self._claim(lease, name)))

    def transact(
        self, actions: Sequence[Item], lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Do all of these, as for ``transact_write_items``, or raise StaleFence and do none.

        Each item that is named has its own mark, and each must let the claim pass.
        """
        self._do(self._transacting(actions, self._claim(lease, name)))

    def mark(self, key: Item) -> int:
        """The mark of an item, in epoch 0 the highest fence that was seen; 0 when there is none."""
        return mark_of(self._do(self._looking(key)).get("Item"), self.attribute)

    def reset(self, key: Item, to: int = 0) -> None:
        """Set the mark of an item, also to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Whoever still holds a lease of the old one is
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        self._do(self._resetting(key, to))

    def _do(self, call: Call) -> Any:
        send, request = self._method(call)
        with watched(self._where):
            try:
                return send(**request)
            except Exception as error:
                self._failed(error, call)
                raise


class AsyncDynamoDBGuard(Rules):
    """The same for asyncio: every method is awaited. Over a client of aiobotocore, by its name.

    ``table`` is such a client, with ``table_name``; or the Table of aioboto3.
    """

    async def enter(
        self, key: Item, lease: Fenced | int, *, name: str | None = None
    ) -> dict[str, Any]:
        """Raise the mark and read the item, in one step: what every tenure begins with.

        An item that was not there has only its key and the mark afterward.
        """
        found: dict[str, Any] = await self._do(self._entering(key, self._claim(lease, name)))
        return dict(found["Attributes"])

    async def put(
        self, item: Item, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> Any:
        """Write a whole item, or raise StaleFence. ``more`` is as for ``put_item``."""
        return await self._do(self._putting(item, self._claim(lease, name), more))

    async def update(
        self, key: Item, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> Any:
        """Change an item by an UpdateExpression, or raise StaleFence. As ``update_item``."""
        return await self._do(self._updating({**more, "Key": dict(key)}, self._claim(lease, name)))

    async def delete(self, key: Item, lease: Fenced | int, *, name: str | None = None) -> None:
        """Remove all of an item but its key and the mark, or raise StaleFence."""
        await self._do(self._deleting(key, self._claim(lease, name)))

    async def transact(
        self, actions: Sequence[Item], lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Do all of these, as for ``transact_write_items``, or raise StaleFence and do none.

        Each item that is named has its own mark, and each must let the claim pass.
        """
        await self._do(self._transacting(actions, self._claim(lease, name)))

    async def mark(self, key: Item) -> int:
        """The mark of an item, in epoch 0 the highest fence that was seen; 0 when there is none."""
        return mark_of((await self._do(self._looking(key))).get("Item"), self.attribute)

    async def reset(self, key: Item, to: int = 0) -> None:
        """Set the mark of an item, also to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Whoever still holds a lease of the old one is
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        await self._do(self._resetting(key, to))

    async def _do(self, call: Call) -> Any:
        send, request = self._method(call)
        with watched(self._where):
            try:
                return await send(**request)
            except Exception as error:
                self._failed(error, call)
                raise
