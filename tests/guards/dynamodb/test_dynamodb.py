"""The guard for items of DynamoDB, on moto's server: a stand-in, as ``tests/servers`` says."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencelock.errors import (
    EngineError,
    StaleFence,
    UsageError,
)
from fencelock.guards.dynamodb import (
    DynamoDBGuard,
    condition,
    fenced_put,
    fenced_update,
    refusal,
)
from fencelock.guards.fence import claim
from tests.guards.contract import NAME, Desk, every_check
from tests.guards.dynamodb.desks import (
    KEY,
    AsyncDesk,
    ClientDesk,
    TableDesk,
    TransactionDesk,
    UpdateDesk,
)
from tests.servers.dynamodb import DynamoDB, client

DESKS = [TableDesk, UpdateDesk, ClientDesk, TransactionDesk, AsyncDesk]


@every_check
@pytest.mark.parametrize("kind", DESKS)
def test_the_contract(
    check: Callable[[Desk], None], kind: type[TableDesk], server: DynamoDB
) -> None:
    check(kind(server.url, server.fresh_table()))


def test_entering_reads_the_whole_item_in_the_same_step(items: Any) -> None:
    items.put_item(Item={**KEY, "left": 7, "tags": ["a"]})  # it was there before any guard
    found = DynamoDBGuard(items).enter(KEY, 5, name=NAME)
    assert found == {**KEY, "left": Decimal(7), "tags": ["a"], "fence": Decimal(5)}
    assert items.get_item(Key=KEY)["Item"] == found


def test_a_condition_of_ones_own_must_hold_too(items: Any) -> None:
    guard = DynamoDBGuard(items)
    guard.put({**KEY, "left": 1}, 5, name=NAME)
    own: dict[str, Any] = {
        "ConditionExpression": "#l > :none OR #l = :many",  # an OR must not get around ours
        "ExpressionAttributeNames": {"#l": "left"},
        "ExpressionAttributeValues": {":none": 0, ":many": 99},
    }
    guard.put({**KEY, "left": 0}, 6, name=NAME, **own)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        guard.put({**KEY, "left": -1}, 7, name=NAME, **own)
    assert guard.mark(KEY) == 6
    with pytest.raises(StaleFence):
        guard.put({**KEY, "left": 0}, 5, name=NAME, **own)


def test_an_or_in_ones_own_condition_does_not_let_an_old_fence_in(items: Any) -> None:
    guard = DynamoDBGuard(items)
    guard.put(KEY, 6, name=NAME)
    with pytest.raises(StaleFence):
        guard.put(KEY, 5, name=NAME, ConditionExpression="attribute_exists(id) OR size(id) > :n",
                  ExpressionAttributeValues={":n": 0})  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        "SET left_over = :v",
        "set left_over = :v",
        "REMOVE settings SET left_over = :v",
        "SET left_over = :v REMOVE #set",
        "ADD left_over :v",
    ],
)
def test_an_update_keeps_its_own_expression(items: Any, expression: str) -> None:
    guard = DynamoDBGuard(items)
    names = {"ExpressionAttributeNames": {"#set": "set"}} if "#set" in expression else {}
    guard.update(
        KEY,
        5,
        name=NAME,
        UpdateExpression=expression,
        ExpressionAttributeValues={":v": 7},
        **names,
    )
    assert items.get_item(Key=KEY)["Item"] == {**KEY, "left_over": 7, "fence": 5}


def test_a_deleted_item_keeps_its_mark_until_its_time_is_over(
    items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    guard = DynamoDBGuard(items, expires="gone_at", keep_seconds=60)
    guard.put({**KEY, "left": 1}, 5, name=NAME)
    guard.delete(KEY, 6, name=NAME)
    assert items.get_item(Key=KEY)["Item"] == {**KEY, "fence": 6, "gone_at": 1060}
    with pytest.raises(StaleFence):
        guard.put({**KEY, "left": 1}, 5, name=NAME)
    assert guard.enter(KEY, 7, name=NAME) == {**KEY, "fence": 7, "gone_at": None}  # it lives again
    guard.delete(KEY, 7, name=NAME)
    guard.put({**KEY, "left": 2}, 7, name=NAME)
    assert items.get_item(Key=KEY)["Item"] == {**KEY, "left": 2, "fence": 7}


def test_a_transaction_is_refused_as_a_whole(items: Any, server: DynamoDB) -> None:
    guard = DynamoDBGuard(items)
    a, b = {"id": "a"}, {"id": "b"}
    guard.put({**b, "n": 1}, 6, name=NAME)
    both: list[dict[str, Any]] = [
        {"Put": {"Item": {**a, "n": 2}}},
        {
            "Update": {
                "Key": b,
                "UpdateExpression": "SET n = :n",
                "ExpressionAttributeValues": {":n": 2},
            }
        },
    ]
    with pytest.raises(StaleFence) as caught:
        guard.transact(both, 5, name=NAME)
    assert (caught.value.offered, caught.value.highest) == (5, 6)
    assert guard.mark(a) == 0
    guard.transact(both, 7, name=NAME)
    assert (guard.mark(a), guard.mark(b)) == (7, 7)
    guard.transact([{"ConditionCheck": {"Key": a}}, both[1]], 7, name=NAME)
    with pytest.raises(UsageError, match="forget its mark"):
        guard.transact([{"Delete": {"Key": a}}], 8, name=NAME)


def test_the_dictionaries_can_be_sent_by_any_client(server: DynamoDB) -> None:
    name, low = server.fresh_table(), client(server.url)
    put = {"TableName": name, "Item": {"id": {"S": "42"}}}
    low.put_item(**fenced_put(put, claim(5, NAME), typed=True))
    with pytest.raises(ClientError) as caught:
        low.put_item(**fenced_put(put, claim(4, NAME), typed=True))
    stale = refusal(caught.value, claim(4, NAME))
    assert stale is not None
    assert (stale.offered, stale.highest) == (4, 5)
    assert refusal(ValueError(), claim(4, NAME)) is None
    update = {"TableName": name, "Key": {"id": {"S": "42"}}}
    low.update_item(**fenced_update(update, claim(6, NAME), typed=True, attribute="fence"))
    with pytest.raises(ClientError):
        low.delete_item(**condition(claim(5, NAME), update, typed=True))


def test_a_server_that_does_not_tell_the_mark_still_refuses() -> None:
    """Not all of those that are like DynamoDB return the item that they refused."""
    error = ClientError({"Error": {"Code": "ConditionalCheckFailedException"}}, "PutItem")
    lone = fenced_put({"Item": KEY}, claim(4, NAME))
    stale = refusal(error, claim(4, NAME), request=lone)
    assert stale is not None
    assert (stale.offered, stale.highest) == (4, 0)
    joined = fenced_put({"Item": KEY, "ConditionExpression": "size(id) > :n"}, claim(4, NAME))
    assert refusal(error, claim(4, NAME), request=joined) is None  # it may have been theirs


@pytest.mark.parametrize("foreign", ["text", ["list"], None])
def test_a_foreign_value_in_the_place_of_a_mark_stops_everybody(items: Any, foreign: Any) -> None:
    items.put_item(Item={**KEY, "fence": foreign})
    with pytest.raises(EngineError, match="no guard wrote"):
        DynamoDBGuard(items).mark(KEY)
    code = {"Code": "ConditionalCheckFailedException"}  # what DynamoDB says; moto fails instead
    error = ClientError({"Error": code, "Item": {"fence": foreign}}, "PutItem")
    with pytest.raises(EngineError, match="no guard wrote"):
        refusal(error, claim(5, NAME))
