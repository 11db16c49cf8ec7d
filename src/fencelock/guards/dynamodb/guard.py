"""The DynamoDB guard of both flavors: each method makes the requests of one operation."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...errors import UsageError
from ..aws import code_of, watch, watched
from ..fence import Claim, Fenced, MarkPair, claim, crowded_out
from ..runner import run, run_async
from .requests import (
    ATTRIBUTE,
    condition,
    fenced_put,
    fenced_update,
    marks_of,
    number,
    readers_of,
    refusal,
)

__all__ = ["AsyncDynamoDBGuard", "DynamoDBGuard"]

Item = Mapping[str, Any]

KEEP_S = 30 * 24 * 3600.0
ATTEMPTS_MAX = 100  # each that fails is another's success


class Call(NamedTuple):
    """One request, the client method that sends it, and the claim that it is checked by."""

    method: str
    request: dict[str, Any]
    claim: Claim | None = None


_Steps: TypeAlias = Generator[Call, Any, dict[str, Any]]


def _client_of(table: Any) -> Any:
    client = getattr(getattr(table, "meta", None), "client", None)
    if client is None:
        raise UsageError(
            "this guard takes boto3's Table, or a low-level client with table_name=, not "
            f"{table!r:.200}"
        )
    return client


class _DynamoDBGuardBase:
    """What both flavors share: the requests of each operation, and the mapping of refusals."""

    def __init__(
        self,
        table: Any,
        table_name: str | None = None,
        *,
        attribute: str = ATTRIBUTE,
        expires: str | None = None,
        keep_seconds: float = KEEP_S,
        epoch: int = 0,
    ) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        self.attribute = attribute
        self.epoch = epoch
        self._typed = table_name is not None
        self._target = table
        self._client: Any = table if self._typed else _client_of(table)
        self._table_name = table_name or table.name
        self._form: dict[str, Any] = {"attribute": attribute, "typed": self._typed}
        self._expires, self._keep_seconds = expires, keep_seconds
        watch(self._client)

    def _claim(self, lease: Fenced | int, name: str | None, reading: bool = False) -> Claim:
        return claim(lease, name, self.epoch, reading, "dynamodb")

    def _entering(self, key: Item, wanted: Claim) -> _Steps:
        if wanted.reading:
            return (yield from self._entering_reader(key, wanted))
        request = {"Key": dict(key), "ReturnValues": "ALL_NEW"}
        return dict((yield self._updating(request, wanted))["Attributes"])

    def _entering_reader(self, key: Item, wanted: Claim) -> _Steps:
        """Read the marks, compare, and raise them if they are unchanged; else repeat."""
        for _ in range(ATTEMPTS_MAX):
            item: dict[str, Any] = dict((yield self._looking(key)).get("Item", {}))
            marks = marks_of(item, self.attribute)
            after = marks.admit(wanted)
            if after == marks:
                return item
            try:
                raised = yield self._raising_reader(key, item, after)
            except Exception as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
            else:
                return dict(raised["Attributes"])
        raise crowded_out("item", wanted.name, ATTEMPTS_MAX)

    def _raising_reader(self, key: Item, item: Item, after: MarkPair) -> Call:
        """Return the update that writes a reader's marks if the item still has those read."""
        ours = dict(
            zip(("#f", "#r", "#w"), (self.attribute, *readers_of(self.attribute)), strict=True)
        )
        seen = {name: item[attribute] for name, attribute in ours.items() if attribute in item}
        same = [f"{name} = :{name[1:]}" for name in seen]
        same += [f"attribute_not_exists({name})" for name in ours if name not in seen]
        values: dict[str, Any] = {f":{name[1:]}": value for name, value in seen.items()}
        values[":highest"] = number(after.highest, self._typed)
        values[":written"] = number(after.written, self._typed)
        request: dict[str, Any] = {
            "Key": dict(key),
            "UpdateExpression": "SET #f = :highest, #r = :highest, #w = :written",
            "ConditionExpression": " AND ".join(same),
            "ExpressionAttributeNames": ours,
            "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_NEW",
        }
        return Call("update_item", self._living(request))

    def _putting(self, item: Item, wanted: Claim, more: Item) -> Call:
        return Call("put_item", fenced_put({**more, "Item": item}, wanted, **self._form), wanted)

    def _updating(self, request: dict[str, Any], wanted: Claim) -> Call:
        return Call(
            "update_item", self._living(fenced_update(request, wanted, **self._form)), wanted
        )

    def _living(self, request: dict[str, Any]) -> dict[str, Any]:
        """Extend an update so that it clears the expiry of an item that had been deleted."""
        if self._expires is not None:
            request["ExpressionAttributeNames"]["#fencelock_expires"] = self._expires
            request["ExpressionAttributeValues"][":fencelock_never"] = (
                {"NULL": True} if self._typed else None
            )
            head, _, tail = request["UpdateExpression"].partition("SET ")
            never = "#fencelock_expires = :fencelock_never"
            request["UpdateExpression"] = f"{head}SET {never}, {tail}"
        return request

    def _deleting(self, key: Item, wanted: Claim) -> Call:
        left = dict(key)
        if self._expires is not None:
            left[self._expires] = number(int(time.time() + self._keep_seconds), self._typed)
        return self._putting(left, wanted, {})

    def _transacting(self, actions: Sequence[Item], wanted: Claim) -> Call:
        return Call(
            "transact_write_items",
            {"TransactItems": [self._action(action, wanted) for action in actions]},
            wanted,
        )

    def _action(self, action: Item, wanted: Claim) -> dict[str, Any]:
        ((kind, request),) = action.items()
        request = {"TableName": self._table_name, **request}
        if kind == "Put":
            return {kind: fenced_put(request, wanted, **self._form)}
        if kind == "Update":
            return {kind: fenced_update(request, wanted, **self._form)}
        if kind == "ConditionCheck":
            return {kind: condition(wanted, request, **self._form)}
        raise UsageError(
            f"a guarded transaction has Put, Update and ConditionCheck, not {kind!r}: a deleted "
            "item would forget its mark. Put an item with nothing but its key instead"
        )

    def _looking(self, key: Item) -> Call:
        return Call("get_item", {"Key": dict(key), "ConsistentRead": True})

    def _resetting(self, key: Item, to: int) -> Call:
        names = {"#f": self.attribute}
        names["#r"], names["#w"] = readers_of(self.attribute)
        request: dict[str, Any] = {"Key": dict(key), "ExpressionAttributeNames": names}
        if not to:
            return Call("update_item", {**request, "UpdateExpression": "REMOVE #f, #r, #w"})
        mark = number(claim(to, "any", self.epoch).mark, self._typed)
        request["ExpressionAttributeValues"] = {":mark": mark}
        return Call("update_item", {**request, "UpdateExpression": "SET #f = :mark REMOVE #r, #w"})

    def _method(self, call: Call) -> tuple[Any, dict[str, Any]]:
        if call.method == "transact_write_items":
            return getattr(self._client, call.method), call.request
        request = {"TableName": self._table_name, **call.request} if self._typed else call.request
        return getattr(self._target, call.method), request

    def _failed(self, error: Exception, call: Call) -> None:
        """Raise StaleFence if the error is a refusal."""
        if call.claim is not None:
            stale = refusal(error, call.claim, attribute=self.attribute, request=call.request)
            if stale is not None:
                raise stale from error

    @property
    def _where(self) -> str:
        return f"the table {self._table_name!r} of DynamoDB"


class DynamoDBGuard(_DynamoDBGuardBase):
    """Reads and writes items for the holder with the highest fence.

    ``table`` is boto3's Table, or a low-level client together with ``table_name``. ``attribute`` is
    the item's attribute for its mark. ``expires`` names the table's attribute for DynamoDB's Time
    To Live: a deleted item is then removed after ``keep_seconds``, with its mark.
    """

    def enter(
        self, key: Item, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> dict[str, Any]:
        """Raise the mark and read the item in one step, at the start of a tenure.

        An item that did not exist has only its key and the mark afterward. ``reading`` says of a
        bare fence that it is a read lock's; a lease says so itself.
        """
        return run(self._entering(key, self._claim(lease, name, reading)), self._do)

    def put(self, item: Item, lease: Fenced | int, *, name: str | None = None, **more: Any) -> Any:
        """Write a whole item, or raise StaleFence. ``more`` is as for ``put_item``."""
        return self._do(self._putting(item, self._claim(lease, name), more))

    def update(
        self, key: Item, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> Any:
        """Change an item by an UpdateExpression, or raise StaleFence. As ``update_item``."""
        return self._do(self._updating({**more, "Key": dict(key)}, self._claim(lease, name)))

    def delete(self, key: Item, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete all of an item but its key and the mark, or raise StaleFence."""
        self._do(self._deleting(key, self._claim(lease, name)))

    def transact(
        self, actions: Sequence[Item], lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Do all actions, as for ``transact_write_items``, or raise StaleFence and do none.

        Each item has a mark of its own, and the claim must pass all of them.
        """
        self._do(self._transacting(actions, self._claim(lease, name)))

    def mark(self, key: Item, *, reading: bool = False) -> int:
        """Return the mark of an item, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        item = (self._do(self._looking(key))).get("Item")
        return marks_of(item, self.attribute).of(reading)

    def reset(self, key: Item, to: int = 0) -> None:
        """Set the mark of an item, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
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


class AsyncDynamoDBGuard(_DynamoDBGuardBase):
    """The same for asyncio: every method is awaited.

    ``table`` is aioboto3's Table, or a client of aiobotocore together with ``table_name``.
    """

    async def enter(
        self, key: Item, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> dict[str, Any]:
        """Raise the mark and read the item in one step, at the start of a tenure.

        An item that did not exist has only its key and the mark afterward. ``reading`` says of a
        bare fence that it is a read lock's; a lease says so itself.
        """
        return await run_async(self._entering(key, self._claim(lease, name, reading)), self._do)

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
        """Delete all of an item but its key and the mark, or raise StaleFence."""
        await self._do(self._deleting(key, self._claim(lease, name)))

    async def transact(
        self, actions: Sequence[Item], lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Do all actions, as for ``transact_write_items``, or raise StaleFence and do none.

        Each item has a mark of its own, and the claim must pass all of them.
        """
        await self._do(self._transacting(actions, self._claim(lease, name)))

    async def mark(self, key: Item, *, reading: bool = False) -> int:
        """Return the mark of an item, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        item = (await self._do(self._looking(key))).get("Item")
        return marks_of(item, self.attribute).of(reading)

    async def reset(self, key: Item, to: int = 0) -> None:
        """Set the mark of an item, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
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
