"""An item of DynamoDB behind the guard: by boto3's Table, by its client, and from asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

from fencelock.guards.dynamodb import AsyncDynamoDBGuard, DynamoDBGuard
from fencelock.guards.fence import Fenced
from tests.guards.bridge import Bridge
from tests.servers import dynamodb

KEY = {"id": "42"}
TYPED_KEY = {"id": {"S": "42"}}

_bridges: dict[str, Bridge] = {}


def close_bridges() -> None:
    while _bridges:
        _bridges.popitem()[1].close()


class TableDesk:
    def __init__(self, url: str, name: str, epoch: int = 0) -> None:
        self._url, self._name = url, name
        self._table = dynamodb.table(url, name)
        self.guard = DynamoDBGuard(self._table, epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return self.guard.enter(KEY, lease, name=name, reading=reading).get("value")

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.guard.put({**KEY, "value": value}, lease, name=name)

    def read(self) -> str | None:
        found: str | None = self._table.get_item(Key=KEY).get("Item", {}).get("value")
        return found

    def mark(self, reading: bool = False) -> int:
        return self.guard.mark(KEY, reading=reading)

    def reset(self, to: int = 0) -> None:
        self.guard.reset(KEY, to)

    def at(self, epoch: int) -> Self:
        return type(self)(self._url, self._name, epoch)


class UpdateDesk(TableDesk):
    """The same, changing one attribute instead of the whole item."""

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.guard.update(
            KEY,
            lease,
            name=name,
            UpdateExpression="REMOVE gone SET #v = :v",
            ExpressionAttributeNames={"#v": "value"},
            ExpressionAttributeValues={":v": value},
        )


class ClientDesk(TableDesk):
    """The same over the low-level client, whose values have types."""

    def __init__(self, url: str, name: str, epoch: int = 0) -> None:
        super().__init__(url, name)
        self.guard = DynamoDBGuard(dynamodb.client(url), name, epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        value: dict[str, str] = self.guard.enter(TYPED_KEY, lease, name=name, reading=reading).get(
            "value", {}
        )
        return value.get("S")

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.guard.put({**TYPED_KEY, "value": {"S": value}}, lease, name=name)

    def mark(self, reading: bool = False) -> int:
        return self.guard.mark(TYPED_KEY, reading=reading)

    def reset(self, to: int = 0) -> None:
        self.guard.reset(TYPED_KEY, to)


class TransactionDesk(ClientDesk):
    """The same in a transaction over two items."""

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        item = {**TYPED_KEY, "value": {"S": value}}
        touched = {"Key": {"id": {"S": "other"}}, "UpdateExpression": "REMOVE a"}
        self.guard.transact([{"Put": {"Item": item}}, {"Update": touched}], lease, name=name)

    def reset(self, to: int = 0) -> None:
        super().reset(to)
        self.guard.reset({"id": {"S": "other"}}, to)


class AsyncDesk(ClientDesk):
    """The same from asyncio, over aiobotocore."""

    def __init__(self, url: str, name: str, epoch: int = 0) -> None:
        super().__init__(url, name)
        self._epoch = epoch

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        item = self._run(lambda guard: guard.enter(TYPED_KEY, lease, name=name, reading=reading))
        value: dict[str, str] = item.get("value", {})
        return value.get("S")

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        item = {**TYPED_KEY, "value": {"S": value}}
        self._run(lambda guard: guard.put(item, lease, name=name))

    def mark(self, reading: bool = False) -> int:
        mark: int = self._run(lambda guard: guard.mark(TYPED_KEY, reading=reading))
        return mark

    def reset(self, to: int = 0) -> None:
        self._run(lambda guard: guard.reset(TYPED_KEY, to))

    def _run(self, use: Callable[[AsyncDynamoDBGuard], Awaitable[Any]]) -> Any:
        if self._url not in _bridges:
            _bridges[self._url] = Bridge(lambda: dynamodb.aio_client(self._url))
        return _bridges[self._url].run(
            lambda client: use(AsyncDynamoDBGuard(client, self._name, epoch=self._epoch))
        )
