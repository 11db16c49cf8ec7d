"""A counter in an item of DynamoDB, on moto's server: a stand-in, one request at a time."""

from __future__ import annotations

import json
from pathlib import Path

from fencelock.guards.dynamodb import DynamoDBGuard
from tests.servers.dynamodb import DynamoDB, table
from tests.servers.shared import shared

KEY = {"id": "counter"}
NAME = "counter"

table("http://127.0.0.1:1", "any")  # nothing is sent: who forks us later need not read it all again


class Counter:
    """One attribute of one item."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        server = shared(DynamoDB)
        return json.dumps({"url": server.url, "table": server.fresh_table()})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._table = table(place["url"], place["table"], timeout=30)
        self._guard = DynamoDBGuard(self._table)

    def enter(self, fence: int, reading: bool = False) -> int:
        return int(self._guard.enter(KEY, fence, name=NAME, reading=reading).get("value", 0))

    def write(self, value: int, fence: int) -> None:
        self._guard.put({**KEY, "value": value}, fence, name=NAME)

    def read(self) -> int:
        return int(self._table.get_item(Key=KEY).get("Item", {}).get("value", 0))

    def write_bare(self, value: int) -> None:
        self._table.update_item(
            Key=KEY,
            UpdateExpression="SET #v = :v",
            ExpressionAttributeNames={"#v": "value"},
            ExpressionAttributeValues={":v": value},
        )

    def mark(self, reading: bool = False) -> int:
        return self._guard.mark(KEY, reading=reading)

    def close(self) -> None:
        self._table.meta.client.close()
