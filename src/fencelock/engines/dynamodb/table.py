"""The table of the locks: requests to it, and how it is made where it is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ...world import World, sleep
from .records import EXPIRES, KEY, Item, Write, key_of
from .settings import Settings
from .wire import Wire, wire_of
from .wire.errors import Refused, TableMissing

CREATE_S = 60.0  # AWS takes about ten seconds
LOOK_S = 0.2


class Table:
    """One table, for one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._made: Wire | None = None

    @property
    def _wire(self) -> Wire:
        if self._made is None:
            self._made = wire_of(self._world, self._settings)
        return self._made

    async def ready(self) -> None:
        """See that the table is there and has our key; make it if that is wanted."""
        try:
            described = await self.describe()
        except Denied:  # rights to the items are enough
            await self.get("")
            return
        except TableMissing as error:
            if not self._settings.create:
                raise Misconfigured(f"{error}. {self._advice()}") from error
            described = await self._create()
        keys = [(k["AttributeName"], k["KeyType"]) for k in described["KeySchema"]]
        if keys != [(KEY, "HASH")]:
            raise Misconfigured(
                f"the table {self._settings.table!r} has other keys ({keys}): name another table"
            )
        while described["TableStatus"] == "CREATING":
            await self._pause(self._world.now() + CREATE_S)
            described = await self.describe()

    async def _create(self) -> Mapping[str, Any]:
        """Make the table, or wait for whoever else makes it."""
        try:
            await self.call(
                "create_table",
                KeySchema=[{"AttributeName": KEY, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": KEY, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        except Denied as error:
            raise Denied(f"{error} {self._advice()}") from error
        except (OutcomeUnknown, Unavailable):
            pass  # it is made, or another client makes it: that is seen
        give_up = self._world.now() + CREATE_S
        while True:
            try:
                described = await self.describe()
                if described["TableStatus"] == "ACTIVE":
                    break
            except TableMissing:
                pass  # a description lags behind
            await self._pause(give_up)
        try:
            wanted = {"Enabled": True, "AttributeName": EXPIRES}
            await self.call("update_time_to_live", TimeToLiveSpecification=wanted)
        except FencelockError:
            pass  # another client does it, or nobody may: the doctor tells
        return described

    async def _pause(self, give_up: float) -> None:
        if self._world.now() + LOOK_S > min(give_up, self._world.limit()):
            raise Unavailable(
                f"the table {self._settings.table!r} is being made, and is not ready yet: try again"
            )
        await sleep(self._world, LOOK_S)

    def _advice(self) -> str:
        return (
            f"Make it: aws dynamodb create-table --region {self._settings.region} --table-name "
            f"{self._settings.table} --key-schema AttributeName={KEY},KeyType=HASH "
            f"--attribute-definitions AttributeName={KEY},AttributeType=S "
            "--billing-mode PAY_PER_REQUEST"
        )

    async def call(self, operation: str, **request: Any) -> dict[str, Any]:
        return await self._wire.call(operation, request)

    async def describe(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = (await self.call("describe_table"))["Table"]
        return described

    async def get(self, key: str) -> Item | None:
        """Read an item as the last write has left it."""
        answer = await self.call("get_item", Key=key_of(key or KEY), ConsistentRead=True)
        return answer.get("Item")

    async def update(self, write: Write) -> Item:
        """Write if the condition holds, else raise Refused with the item as it is."""
        try:
            answer = await self.call("update_item", **write)
        except Refused as refused:
            if refused.item is not None:
                raise
            item = await self._wire.call("get_item", {"Key": write["Key"], "ConsistentRead": True})
            raise Refused(item.get("Item")) from refused  # the server did not tell it
        return answer.get("Attributes", {})

    async def scan(self, **request: Any) -> list[Item]:
        """Read all items that a filter lets through, page by page."""
        found, start = list[Item](), dict[str, Any]()
        while True:
            answer = await self.call("scan", ConsistentRead=True, **request, **start)
            found += answer.get("Items", [])
            if not answer.get("LastEvaluatedKey"):
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()

    def close_nowait(self) -> None:
        if self._made is not None:
            self._made.close_nowait()
