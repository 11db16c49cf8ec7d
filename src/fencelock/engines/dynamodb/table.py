"""The table of the locks: requests to it, and its creation where it is missing."""

from __future__ import annotations

from typing import Any

from ...errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ...world import World, sleep
from .records import EXPIRES, KEY, SIDE, Item, Write, key_of
from .settings import Settings
from .wire import Wire, wire_of
from .wire.errors import Refused, TableMissing

CREATE_S = 60.0  # AWS takes about ten seconds
CHECK_S = 0.2
SCHEMA = [{"AttributeName": KEY, "KeyType": "HASH"}]
ATTRIBUTES = [{"AttributeName": KEY, "AttributeType": "S"}]
ADVICE = "Make it as docs/engines/dynamodb.md says, or let a client with more rights do so"


class Table:
    """One table, for one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._wire: Wire | None = None

    async def call(self, operation: str, **request: Any) -> dict[str, Any]:
        if self._wire is None:
            self._wire = wire_of(self._world, self._settings)
        return await self._wire.call(operation, request)

    async def get(self, key: str) -> Item:
        """Read an item, strongly consistent; return an empty one where there is none."""
        answer = await self.call("get_item", Key=key_of(key), ConsistentRead=True)
        found: Item = answer.get("Item", {})
        return found

    async def update(self, write: Write) -> tuple[bool, Item]:
        """Write if the condition holds.

        Return whether it did, and the attributes written, or else the item that did not meet it.
        """
        try:
            answer = await self.call("update_item", **write)
        except Refused as refused:
            if refused.item is None:  # the server does not return it, or there is none
                return False, await self.get(write["Key"][KEY]["S"])
            return False, refused.item
        return True, answer.get("Attributes", {})

    async def scan(self, **request: Any) -> list[Item]:
        """Return all items that meet a filter, read page by page."""
        found = list[Item]()
        while True:
            answer = await self.call("scan", ConsistentRead=True, **request)
            found += answer.get("Items", [])
            if not answer.get("LastEvaluatedKey"):
                return found
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def ready(self) -> None:
        """Check that the table exists and has our key; create it if the settings allow that."""
        try:
            described = await self._described()
        except Denied:
            await self.get(SIDE)  # permission for the items is enough
            return
        if described["KeySchema"] != SCHEMA:
            table = self._settings.table
            raise Misconfigured(f"the table {table!r} has other keys than {KEY!r}: name another")

    async def _described(self) -> dict[str, Any]:
        """Return the table's description once it can be used; create the table if it is missing."""
        give_up, made = min(self._world.now() + CREATE_S, self._world.limit()), False
        while self._world.now() < give_up:
            try:
                described: dict[str, Any] = (await self.call("describe_table"))["Table"]
                if described["TableStatus"] != "CREATING":
                    if made:
                        await self._enable_ttl()
                    return described
            except TableMissing as error:
                if not self._settings.create:
                    raise Misconfigured(f"{error}. {ADVICE}") from error
                if not made:  # else its description lags behind
                    made = await self._create()
            await sleep(self._world, CHECK_S)
        raise Unavailable(f"the table {self._settings.table!r} is still being made: try again")

    async def _create(self) -> bool:
        made = {"KeySchema": SCHEMA, "AttributeDefinitions": ATTRIBUTES}
        try:
            await self.call("create_table", **made, BillingMode="PAY_PER_REQUEST")
        except Denied as error:
            raise Misconfigured(f"{error}. {ADVICE}") from error
        except (OutcomeUnknown, Unavailable):
            pass  # it is created, or another client creates it: the next description shows it
        return True

    async def _enable_ttl(self) -> None:
        wanted = {"Enabled": True, "AttributeName": EXPIRES}
        try:
            await self.call("update_time_to_live", TimeToLiveSpecification=wanted)
        except FencelockError:
            pass  # another client does it, or the permission is missing: the doctor reports it

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    def close_nowait(self) -> None:
        if self._wire is not None:
            self._wire.close_nowait()
