"""A guard for items of DynamoDB: the mark is an attribute of the item, checked by its condition.

    guard = DynamoDBGuard(boto3.resource("dynamodb").Table("stock"))
    with client.lock("stock:42") as lease:
        item = guard.enter({"id": "42"}, lease)         # raises the mark, and reads
        guard.put({**item, "left": item["left"] - 1}, lease)

It works over boto3's Table, over a low-level client with the name of a table, and, as
``AsyncDynamoDBGuard``, over those of aioboto3 and aiobotocore. ``fenced_put`` and the other
functions make the same requests as plain dictionaries, to be sent by the caller. The tests run
against moto's server, a stand-in: see the page on this guard.
"""

from __future__ import annotations

from .guard import AsyncDynamoDBGuard, DynamoDBGuard
from .requests import condition, fenced_put, fenced_update, refusal

__all__ = [
    "AsyncDynamoDBGuard",
    "DynamoDBGuard",
    "condition",
    "fenced_put",
    "fenced_update",
    "refusal",
]
