"""A guard for items of DynamoDB: the fence is an attribute, and part of the condition of a write.

It needs a table with the key ``id``, and what boto3 finds it by (AWS_DEFAULT_REGION, credentials,
and AWS_ENDPOINT_URL for a server of your own): ``TABLE=stock python examples/guard_dynamodb.py``.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import fencelock
from fencelock.guards.dynamodb import DynamoDBGuard

KEY = {"id": "42"}


def main(table: str) -> None:
    import boto3

    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    dynamodb: Any = boto3.resource("dynamodb")
    guard = DynamoDBGuard(dynamodb.Table(table))
    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("stock:42", ttl=0.2, renew=False).acquire()
        seen = guard.enter(KEY, first).get("sold", 0)  # raises the mark, and reads
        print(f"the first holder reads {seen}, and freezes")
        time.sleep(0.3)

        with client.lock("stock:42", timeout=5) as second:
            sold = guard.enter(KEY, second).get("sold", 0)
            guard.put({**KEY, "sold": sold + 1}, second)
            print(f"the second holder writes {sold + 1}")

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guard.put({**KEY, "sold": seen + 1}, first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")


if __name__ == "__main__":
    if "TABLE" in os.environ:
        main(os.environ["TABLE"])
    else:
        print("set TABLE to the name of a table whose items have the key id")
