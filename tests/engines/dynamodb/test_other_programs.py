"""The table of AWS's lock client: the calls that client makes, written by hand, beside ours.

They follow its documentation of the table and of acquiring, renewing and releasing: a conditional
PutItem, a new recordVersionNumber with each heartbeat, a deletion or ``isReleased`` in the end.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.model import Request
from tests.faults.flavors import SOON, Lab, run
from tests.servers.dynalite import Dynalite
from tests.servers.dynamodb import client

TTL_S = 60.0
ABSENT_OR_RELEASED = "attribute_not_exists(#k) OR (attribute_exists(#k) AND isReleased = :one)"


class Other:
    """Another program, as far as the table tells."""

    def __init__(self, server: Dynalite, table: str) -> None:
        self._asks = client(server.url)
        self._table = table
        self._version = ""

    def put(self, condition: str, values: dict[str, Any], lease_ms: int = 60_000) -> bool:
        self._version = str(uuid4())
        item = {
            "key": {"S": "seat"},
            "ownerName": {"S": "host-of-java"},
            "leaseDuration": {"S": str(lease_ms)},
            "recordVersionNumber": {"S": self._version},
        }
        try:
            self._asks.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression=condition,
                ExpressionAttributeNames={"#k": "key"},
                ExpressionAttributeValues=values,
            )
        except self._asks.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def acquire(self, lease_ms: int = 60_000) -> bool:
        return self.put(ABSENT_OR_RELEASED, {":one": {"S": "1"}}, lease_ms)

    def take_over(self, version: str) -> bool:
        """Acquire what it has seen unchanged for its leaseDuration."""
        condition = "attribute_exists(#k) AND recordVersionNumber = :seen"
        return self.put(condition, {":seen": {"S": version}})

    def release(self) -> None:
        self._asks.delete_item(
            TableName=self._table,
            Key={"key": {"S": "seat"}},
            ConditionExpression="ownerName = :o AND recordVersionNumber = :v",
            ExpressionAttributeValues={
                ":o": {"S": "host-of-java"},
                ":v": {"S": self._version},
            },
        )

    def look(self) -> dict[str, Any]:
        found = self._asks.get_item(
            TableName=self._table, Key={"key": {"S": "seat"}}, ConsistentRead=True
        )
        return dict(found.get("Item", {}))


@pytest.fixture
def other(server: Dynalite, table: str) -> Other:
    return Other(server, table)


def test_each_keeps_the_other_out(flavor: str, locks_url: str, other: Other) -> None:
    async def scenario(lab: Lab) -> None:
        ours = await lab.connect(locks_url)
        lease = await ours.lock("seat", ttl=TTL_S).acquire()
        assert not other.acquire()
        seen = other.look()
        assert seen["leaseDuration"] == {"S": "60000"}
        await lease.renew()
        assert other.look()["recordVersionNumber"] != seen["recordVersionNumber"]
        assert not other.take_over(seen["recordVersionNumber"]["S"])
        assert await lease.release()
        assert other.acquire()
        assert await ours.lock("seat", ttl=TTL_S).try_acquire() is None
        (shown,) = await ours.holders("seat")
        assert (shown.ttl, shown.fence) == (60.0, 0)
        other.release()
        async with ours.lock("seat", ttl=TTL_S) as again:
            assert again.fence > lease.fence

    run(flavor, scenario)


def test_a_dead_one_of_either_kind_is_taken_over(flavor: str, locks_url: str, other: Other) -> None:
    """H21: we watch its version, and it can watch ours."""

    async def scenario(lab: Lab) -> None:
        ours = await lab.connect(locks_url)
        assert other.acquire(lease_ms=500)
        lease = await ours.lock("seat", ttl=TTL_S).acquire(timeout=SOON)
        assert await lease.release()
        engine = ours._core.engine
        await engine.acquire(Request("seat", ours._core.world.owner(), TTL_S))  # and dies
        assert other.take_over(other.look()["recordVersionNumber"]["S"])
        assert await ours.lock("seat", ttl=TTL_S).try_acquire() is None
        other.release()

    run(flavor, scenario)


def test_a_lease_of_a_length_that_cannot_be_read_is_not_taken(
    locks_url: str, server: Dynalite, table: str
) -> None:
    """A client for Go writes "20s" where the one for Java has milliseconds."""
    with fencelock.connect(locks_url) as ours:
        client(server.url).put_item(
            TableName=table,
            Item={
                "key": {"S": "seat"},
                "ownerName": {"S": "host-of-go"},
                "leaseDuration": {"S": "20s"},
                "recordVersionNumber": {"S": "1"},
            },
        )
        assert ours.lock("seat").try_acquire(timeout=0.2) is None
        (shown,) = ours.holders("seat")
        assert shown.ttl > 3600
        assert ours.revoke("seat", "its host is gone")
        with ours.lock("seat", ttl=TTL_S, timeout=0):
            pass
